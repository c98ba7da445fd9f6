"""Tests that a training step whose parts do not fit each other is refused when it is made."""

import math
import warnings
from typing import Any

import pytest
import torch
from exporting import classify
from torch import nn
from torch.amp import GradScaler
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from fsdp_mlir import ExportError
from fsdp_mlir.data.checks import warn_of_loader
from support.freed import freed

X = torch.randn(9, 8)
Y = torch.zeros(9, dtype=torch.int64)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"loss": 3}, "loss is 3; give a function loss"),
        ({"optimizer": "adam"}, "optimizer is 'adam'; give a torch.optim.Optimizer"),
        (
            {"optimizer": torch.optim.AdamW},
            r"optimizer is the class AdamW; make one, as in AdamW\(model.parameters\(\)\)",
        ),
        ({"metrics": 3}, "metrics is 3; give a function"),
        ({"lr_schedule": 0.1}, "lr_schedule is 0.1; give"),
        ({"lr_schedule_every": 2}, 'lr_schedule_every is 2; give "step" or "epoch"'),
        ({"lr_schedule_every": "epoch"}, "given without lr_schedule"),
        ({"epochs": 0, "data": {"x": X}}, "epochs is 0; give a positive integer"),
        ({"steps": 1.5}, "steps is 1.5; give a positive integer"),
        ({"accumulate": 0}, "accumulate is 0; give a positive integer"),
        ({"steps": 2, "epochs": 2, "data": {"x": X}}, "both epochs and steps are given"),
        ({"epochs": 2}, "epochs is given without data"),
        ({"clip_grad_norm": 0}, "clip_grad_norm is 0; give a norm above 0"),
        ({"clip_grad_norm": (-1.0, 2.0)}, r"clip_grad_norm is \(-1.0, 2.0\); give a norm above 0"),
        ({"clip_grad_norm": (1.0, 0.5)}, "clip_grad_norm has the norm type 0.5; give 1, 2"),
        ({"clip_grad_norm": True}, "clip_grad_norm is True; give a norm above 0"),
        ({"clip_grad_value": 0.0}, "clip_grad_value is 0.0; give a number above 0"),
        ({"clip_grad_value": 1, "clip_grad_norm": 1}, "both clip_grad_norm and clip_grad_value"),
        ({"seed": -1}, "seed is -1; give an integer of at least 0"),
        ({"seed": 2**63}, r"seed is 9223372036854775808; give .* below 2\*\*63"),
        (
            {"scaler": GradScaler("cpu", growth_interval=0)},
            "the scaler's growth_interval is 0; give 1 or more",
        ),
        (
            {"scaler": GradScaler("cpu", growth_factor=math.inf)},
            "the scaler's growth_factor is inf; give a fin",
        ),
        (
            {"scaler": GradScaler("cpu", init_scale=0.0)},
            "the scaler's scale is 0.0; give a finite number above",
        ),
        ({"inputs": {}}, "inputs is empty"),
        ({"inputs": [X]}, r"inputs\[0\] is Tensor; give a dict of tensors by name"),
        ({"inputs": {"x": 3}}, r"inputs\['x'\] is int; give a tensor"),
        ({"inputs": {"x y": X}}, "inputs has the name 'x y'"),
        ({"inputs": {"x": X.clone().requires_grad_()}}, r"inputs\['x'\] requires gradients"),
        ({"inputs": {"x": X.to_sparse()}}, r"inputs\['x'\] is not a dense tensor"),
        ({"inputs": {"x": freed(X)}}, r"inputs\['x'\] has no memory for its elements"),
        ({"data": {"x": freed(X)}}, r"data\['x'\] has no memory for its elements"),
        ({"data": {}}, "data is empty"),
        ({"data": {"z": X}}, "data names z, which inputs does not; inputs are x, y"),
        ({"data": {"x": X.double()}}, r"data\['x'\] is float64 but inputs\['x'\] is float32"),
        ({"data": {"x": X[:, :7]}}, r"data\['x'\] has samples of shape \[7\]"),
        ({"data": {"x": X[:3]}}, "data has 3 samples, fewer than one batch of 4"),
        ({"data": {"x": X, "y": Y[:8]}}, r"data differs in number of samples \(x 9, y 8\)"),
        ({"eval_data": {"x": X[:3]}}, "eval_data has 3 samples, fewer than one batch of 4"),
        ({"data": {"x": X, "y": Y}, "eval_data": {"x": X}}, "eval_data has no y, which data has"),
        ({"loss": lambda model, x: x}, "loss cannot be called"),
    ],
)
def test_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ExportError, match=text):
        classify(nn.Linear(8, 3), **options)


@pytest.mark.parametrize(
    "sizes, text",
    (
        ((4, 3), r"inputs differ in batch size \(x 4, y 3\)"),
        ((0, 0), r"inputs have no sample \(dimension 0 of x is 0\); give a batch of the size"),
    ),
)
def test_batches_of_other_sizes(sizes: tuple[int, int], text: str) -> None:
    inputs = {"x": X[: sizes[0]], "y": Y[: sizes[1]]}
    with pytest.raises(ExportError, match=text):
        classify(nn.Linear(8, 3), inputs=inputs, data={"x": X, "y": Y})


def test_the_model_is_a_module() -> None:
    from fsdp_mlir import TrainingStep

    with pytest.raises(ExportError, match="model is function; give a torch.nn.Module"):
        TrainingStep(lambda x: x, lambda model, x: x, None, {"x": X})


@pytest.mark.parametrize(
    "loader, says",
    (
        (
            {"shuffle": True},
            ["an epoch of data ends with a batch of 1 sample", "each of the 2 ranks"],
        ),
        ({"drop_last": True}, ["each of the 2 ranks reads all 9 samples"]),
        ({"sampler": DistributedSampler(range(9), 2, 0, drop_last=True)}, []),
        ({"collate_fn": list}, ["each of the 2 ranks"]),
    ),
)
def test_what_a_loader_would_do_late(loader: dict[str, Any], says: list[str]) -> None:
    """A smaller last batch ends a run behind an epoch; ranks that all read the same have no error."""
    data = DataLoader(TensorDataset(X, Y), batch_size=4, **loader)
    step = classify(nn.Linear(8, 4), inputs={"x": X[:4], "y": Y[:4]}, data=data, epochs=1)
    with warnings.catch_warnings(record=True) as caught:
        warn_of_loader("data", step.data, step.batches, ranks=2)
    assert len(caught) == len(says)
    assert all(text in str(w.message) for text, w in zip(says, caught))

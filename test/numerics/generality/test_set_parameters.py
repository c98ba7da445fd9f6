"""Tests that a parameter which is trained, and which the step sets in place by what it was, has the
bits of eager PyTorch, or is refused."""

from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fsdp_mlir import ExportError, TrainingStep
from fsdp_mlir.export import export_step
from support import chain, reference

STEPS = 3

Change = Callable[[nn.Parameter, Tensor, Tensor], None]


def by_data(scale: nn.Parameter, *_: Tensor) -> None:
    scale.data.clamp_(-0.3, 0.3)


def by_operators(scale: nn.Parameter, *_: Tensor) -> None:
    with torch.no_grad():
        scale.clamp_(min=0.01)


def twice(scale: nn.Parameter, *_: Tensor) -> None:
    """As where a module runs twice."""
    by_data(scale)
    by_data(scale)


def after_it_is_read(scale: nn.Parameter, read: Tensor, *_: Tensor) -> None:
    read.add_(scale.detach().sum())
    by_data(scale)


def by_a_product(scale: nn.Parameter, *_: Tensor) -> None:
    scale.data.mul_(0.9)


def normalized(weight: nn.Parameter, *_: Tensor) -> None:
    """As prototypes are, row by row."""
    with torch.no_grad():
        weight.copy_(F.normalize(weight, dim=1))


def of_bounded_norm(weight: nn.Parameter, *_: Tensor) -> None:
    """As EEGNet has its weights."""
    weight.data = torch.renorm(weight.data, p=2, dim=0, maxnorm=0.7)


def by_the_batch(scale: nn.Parameter, read: Tensor, *_: Tensor) -> None:
    scale.data.add_(read)


def by_another(scale: nn.Parameter, read: Tensor, other: Tensor) -> None:
    scale.data.copy_(other.data.clamp(-0.3, 0.3))


class Scaled(nn.Module):
    """Changes its scale, or the weight of its layer, before it reads them."""

    def __init__(self, change: Change, of: str) -> None:
        super().__init__()
        self.layer, self.change, self.of = nn.Linear(8, 6), change, of
        self.scale = nn.Parameter(torch.linspace(-1, 1, 6))

    def forward(self, x: Tensor) -> Tensor:
        read = 0 * x.sum()
        self.change(self.get_parameter(self.of), read, self.layer.bias)
        return self.layer(x) * self.scale + read


def training_step(
    change: Change, optimizer: Any = torch.optim.AdamW, of: str = "scale", **options: Any
) -> TrainingStep:
    torch.manual_seed(1)
    model, x = Scaled(change, of), torch.randn(24, 8)
    return TrainingStep(
        model,
        lambda model, x: F.mse_loss(model(x), x[:, :6]),
        optimizer(model.parameters(), lr=0.5, weight_decay=0.1),
        {"x": x[:4]},
        data={"x": x},
        **options,
    )


@pytest.mark.quick
@pytest.mark.parametrize(
    "change, of, optimizer, ranks",
    [
        (by_data, "scale", torch.optim.AdamW, 2),
        (by_operators, "scale", torch.optim.SGD, 1),
        (twice, "scale", torch.optim.SGD, 1),
        (by_a_product, "scale", torch.optim.AdamW, 2),
        (normalized, "layer.weight", torch.optim.SGD, 2),
        (of_bounded_norm, "layer.weight", torch.optim.AdamW, 2),
    ],
)
def test_it_is_eagers(
    change: Change, of: str, optimizer: Any, ranks: int, tmp_path: pathlib.Path
) -> None:
    make = lambda argv=(): training_step(change, optimizer, of)
    trained = reference.averaged(make(), ranks, STEPS)
    plan = chain.compile_step(make, tmp_path, pipeline=f"mesh={ranks}")
    run = chain.run_plan(plan, ranks, steps=STEPS)
    reference.assert_same_bits(run.losses, run.weights, trained)


def test_an_optimizers_own_kernel_does_not_take_its_place(tmp_path: pathlib.Path) -> None:
    """Where a GPU has one, it is of the parameters that the step does not set."""
    make = lambda argv=(): training_step(by_data)
    compiled = chain.compile_step(make, tmp_path, pipeline="mesh=1 device=cuda")
    functions = compiled.scheduled.read_text().split("func.func ")
    rules = [text for text in functions if "fsdp.rule" in text]
    assert ["_fused_adamw" in rule for rule in rules] == ["clamp" not in rule for rule in rules]
    assert sum("clamp" in rule for rule in rules) == 1 < len(rules)


@pytest.mark.parametrize("change", [after_it_is_read, by_the_batch, by_another])
def test_another_change_is_refused(change: Change, tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        ExportError, match=r"parameters.py:\d+: the step changes the parameter scale"
    ):
        export_step(training_step(change), tmp_path / "step.pt")


@pytest.mark.quick
@pytest.mark.parametrize(
    "options",
    [
        {"accumulate": 2},
        {"eval_data": {"x": torch.ones(8, 8)}},
        {"scaler": torch.amp.GradScaler("cpu")},  # which skips updates
    ],
)
def test_one_that_is_set_again_before_its_update(options: Any, tmp_path: pathlib.Path) -> None:
    """As by an evaluation: what that changes is lost, so it is to change nothing but the last digits."""
    path = tmp_path / "step.pt"
    export_step(training_step(of_bounded_norm, of="layer.weight", **options), path)
    with pytest.raises(ExportError, match="sets it several times"):
        export_step(training_step(by_a_product, **options), path)

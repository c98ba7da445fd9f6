"""Tests that what cannot be exported ends in one error: what, where, how to mend it."""

import logging
import math
import os
import pathlib
from typing import Any, Callable, Optional

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exporting import classify, cross_entropy, export, installed, sgd
from torch import nn
from torch._higher_order_ops.strict_mode import strict_mode
from torch._subclasses.fake_tensor import FakeTensorMode

from fsdp_mlir import ExportError, TrainingStep
from fsdp_mlir.archive.torchscript import call_text
from fsdp_mlir.package import is_local
from fsdp_mlir.step.places import own_location, said_location, user_location
from fsdp_mlir.export import export_step
from fsdp_mlir.rules.numbers import is_optimizers

HERE = pathlib.Path(__file__).name


class Model(nn.Module):
    """A linear layer; `body` is what else its forward does."""

    def __init__(self, body: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(self.layer, x)


def repeats(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    while x.sum() > 0:
        x = x - 1
    return layer(x)


def reads_a_number(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x) * len(str(x.sum().item()))


def slices_by_value(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x)[: math.isqrt(int(x.abs().max()))]


def gives_numpy_a_rate(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x) * np.random.zipf(
        2 + x.square().mean().item()
    )  # by compiled code, which has lines too


def has_positions_of_a_library(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    def get_rope_index(x: torch.Tensor) -> list[float]:
        return x[0].tolist()

    return layer(x) + get_rope_index(x)[0]


def has_sizes_of_a_library(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    def image_size_to_num_patches(x: torch.Tensor) -> float:
        return x[0].tolist()[0]

    return layer(x) * image_size_to_num_patches(x)


def higher_order(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return strict_mode(layer, (x,))


def communicates(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = layer(x)
    torch.distributed.all_reduce(y)
    return y


def calls_a_library(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    from torchvision.ops import ps_roi_pool

    y = layer(x)
    return y + ps_roi_pool(y[None, None], torch.tensor([[0.0, 0, 0, 3, 3]]), (1, 1))[0, 0]


def indexes_by_bytes(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x)[(x[:, 0] > 0).byte()]


def indexes_by_a_list(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """As UDOP does, by places that are computed."""
    rows, columns = zip(*x.detach().argsort(1)[:, :2])
    return layer(x)[rows, columns]


def raises(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x.t())


def takes_a_gradient_of_data(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(layer(x).sum(), x, create_graph=True)[0]


def solves(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x) @ torch.linalg.lstsq(layer(x).detach(), x).solution


def casts_a_module(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer.double()(x.double())


@pytest.mark.provokes("FSDP-E0206", "FSDP-E0209", "FSDP-E0210", "FSDP-E0213")
@pytest.mark.parametrize(
    "body, text",
    [
        (repeats, "repeats a loop as often as values say; let it run as often"),
        (reads_a_number, "reads a tensor's value as a Python number; keep it a tensor"),
        (slices_by_value, "reads a tensor's value as a Python number; keep it a tensor"),
        (gives_numpy_a_rate, "reads a tensor's value as a Python number; keep it a tensor"),
        (has_positions_of_a_library, "compute position_ids by the model's get_rope_index where"),
        (has_sizes_of_a_library, "where all pictures have one size, give it in the loss as a"),
        (communicates, "the step communicates between processes (torch.distributed) by a function"),
        (higher_order, "uses a higher-order op (strict_mode)"),
        (indexes_by_bytes, "a mask of bytes; make it one of booleans, as mask.bool() does"),
        (indexes_by_a_list, "an index that is a list of tensors, make one tensor by torch.stack"),
        (takes_a_gradient_of_data, "give that one by tensor.detach().requires_grad_()"),
        (solves, "take the solution as torch.linalg.pinv(A) @ B"),
        (raises, "the step raises RuntimeError: "),
        (casts_a_module, "gives the parameters of a Linear another dtype or device; do so before"),
    ],
)
def test_the_users_line_is_named(tmp_path: pathlib.Path, body: Callable, text: str) -> None:
    first = body.__code__.co_firstlineno
    with pytest.raises(ExportError) as error:
        export(classify(Model(body)), tmp_path)
    place, _, message = str(error.value).partition(": ")
    name, _, line = place.partition(":")
    assert text in message
    assert name == "test_refusals.py" and first < int(line) <= first + 4
    assert list(tmp_path.iterdir()) == []


LIBRARY = """
import random
def reads(x): return len(str(x.sum().item()))
def repeats(x):
    while x.sum() > 0:
        x = x - 1
    return x
def draws(x): return x * random.triangular(0, 1)
"""


@pytest.mark.provokes("FSDP-E0206", "FSDP-E0207", "FSDP-E0210")
@pytest.mark.parametrize(
    "function, text",
    (
        (
            "ps_roi_pool",
            r"ps_roi_pool.py:\d+: the step calls torchvision::ps_roi_pool, an operator",
        ),
        ("reads", "parts.py:3: the step reads a tensor's value as a Python number"),
        ("repeats", "parts.py:5: the step repeats a loop as often as values say"),
        ("draws", "parts.py:8: the step draws random numbers from Python or NumPy"),
    ),
)
def test_a_librarys_line_stands_behind_the_users(
    function: str, text: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("parts", LIBRARY, tmp_path, monkeypatch)

    def body(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        import parts

        y = layer(x)
        return y + getattr(parts, function)(y)  # which is named

    line = body.__code__.co_firstlineno + 4
    if function == "ps_roi_pool":
        body, line = calls_a_library, calls_a_library.__code__.co_firstlineno + 4
    with pytest.raises(ExportError, match=rf"test_refusals.py:{line}, in {text}"):
        export(classify(Model(body)), tmp_path)


@pytest.mark.parametrize(
    "loss, text",
    [
        (lambda model, x, y: model(x), r"loss has shape \[4, 3\]; return a scalar"),
        (lambda model, x, y: model(x).argmax(), "loss is int64; return a floating-point scalar"),
        (lambda model, x, y: {"loss": model(x).sum()}, rf"^{HERE}:\d+: loss returns dict"),
        (lambda model, x, y: 3.0, "loss returns float, which does not depend on"),
        (lambda model, x, y: model(x).detach().sum(), rf"^{HERE}:\d+: the loss reaches no"),
        (lambda model, x, y: x.sum(), "the loss reaches no trainable parameter"),
        (
            lambda model, x, y: model(x).sum().item(),
            r"no item\(\), detach\(\) or no_grad\(\) is in between",
        ),
        (lambda model, x: model(x).sum(), r"loss cannot be called as loss\(model, x, y\)"),
    ],
)
def test_losses(tmp_path: pathlib.Path, loss: Callable, text: str) -> None:
    with pytest.raises(ExportError, match=text):
        export(classify(nn.Linear(8, 3), loss=loss), tmp_path)


def test_one_element_is_a_scalar(tmp_path: pathlib.Path) -> None:
    loss = lambda model, x, y: model(x).square().sum(0, True).sum(1)
    step = classify(
        nn.Linear(8, 3), loss=loss, metrics=lambda *batch, **names: {"of": loss(*batch, **names)}
    )
    results = export(step, tmp_path).run()
    value = loss(step.model, **step.inputs)
    value.backward()
    assert value.shape == (1,)
    for result in (results["loss", ""], results["output", "of"]):
        assert torch.equal(result, value[0])
    assert torch.equal(results["gradient", "weight"], step.model.weight.grad)


@pytest.mark.provokes("FSDP-E0204", "FSDP-E0216")
@pytest.mark.parametrize(
    "metrics, text",
    [
        (lambda model, x, y: {"logits": model(x)}, r"metric logits has shape \[4, 3\]"),
        (lambda model, x, y: 3, r"metrics returns int; return tensors by name, as \{"),
        (lambda model, x, y: None, "metrics returns NoneType; return tensors by name"),
        (lambda model, x, y: x.sum(), "metrics returns a tensor; return tensors by name"),
        (lambda model, x, y: {1: x.sum()}, "metrics returns a dict with names that are no texts"),
        (lambda model, x, y: {"rows": len(y)}, "metric rows is int, which is no tensor of the"),
        (lambda model, x, y: {"no": None}, "metric no is NoneType, .*; return a scalar tensor"),
        (lambda model, x, y: {"of": {"x": x.sum()}}, "metric of is dict, which is no tensor"),
        (lambda model, x, y: {"step": x.sum()}, "metrics returns step, which each line of a run"),
        (lambda model, x, y: {"eval_loss": x.sum()}, "metrics returns eval_loss, which each line"),
        (lambda model, x, y: {"hits\n": x.sum()}, r"metric 'hits\\n' has a name that cannot be p"),
    ],
)
def test_metrics(tmp_path: pathlib.Path, metrics: Callable, text: str) -> None:
    with pytest.raises(ExportError, match=text):
        export(classify(nn.Linear(8, 3), metrics=metrics), tmp_path)


@pytest.mark.parametrize(
    "outputs, text",
    [
        (
            lambda model, x, y: {"mean": model(x).mean(0)},
            r"output mean has shape \[3\]; dimension 0",
        ),
        (lambda model, x, y: {"loss": model(x).sum()}, "outputs returns loss, which is the loss's"),
        (lambda model, x, y: {"sum": model(x)}, "metrics and outputs both return sum"),
    ],
)
def test_outputs(tmp_path: pathlib.Path, outputs: Callable, text: str) -> None:
    step = classify(
        nn.Linear(8, 3),
        metrics=lambda model, x, y: {"sum": model(x).sum()},
        outputs=outputs,
        eval_data={"x": torch.randn(9, 8), "y": torch.randint(3, (9,))},
    )
    with pytest.raises(ExportError, match=text):
        export(step, tmp_path)
    with pytest.raises(ExportError, match="outputs are what an evaluation gives"):
        classify(nn.Linear(8, 3), outputs=outputs)


@pytest.mark.provokes("FSDP-E0205")
def test_a_frozen_model(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3).requires_grad_(False)
    with pytest.raises(ExportError, match="the loss reaches no trainable parameter"):
        export(classify(model), tmp_path)


OUTSIDE = nn.Linear(3, 3)


@pytest.mark.provokes("FSDP-E0215")
def test_a_module_outside_the_model(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(OUTSIDE(model(x)), y)

    with pytest.raises(
        ExportError,
        match=r"test_refusals.py:\d+: .* that is not in the model; register .* or freeze it",
    ):
        export(classify(nn.Linear(8, 3), loss=loss), tmp_path)


CALLS = torch.zeros(3)


def gives_other_data(y: torch.Tensor) -> torch.Tensor:
    CALLS.data = 0.9 * CALLS + y.detach().mean(0)  # Dynamo cannot follow this
    return CALLS


@pytest.mark.provokes("FSDP-E0213")
@pytest.mark.parametrize("change", [lambda y: CALLS.add_(1), gives_other_data])
def test_a_tensor_outside_the_model_is_changed(tmp_path: pathlib.Path, change: Callable) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x) + change(model(x)), y)

    text = r"test_refusals.py:\d+: the step changes in place a tensor, or an array, of shape \[3\]"
    with pytest.raises(ExportError, match=text):
        export(classify(nn.Linear(8, 3), loss=loss), tmp_path)
    assert CALLS.tolist() == [0, 0, 0]


def test_a_parameter_changed_in_the_forward(tmp_path: pathlib.Path) -> None:
    def body(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            layer.weight.mul_(x.mean())
        return layer(x)

    with pytest.raises(ExportError, match="layer.weight in place, .* in the step.. of a subclass"):
        export(classify(Model(body)), tmp_path)


def test_libraries_whose_name_begins_like_pytorchs() -> None:
    """Messages name their lines, as those of a model and of an optimizer."""
    packages = pathlib.Path(torch.__file__).parent.parent
    trace = f'File "{packages}/torchvision/ops/boxes.py", line 7\n'
    trace += f'File "{packages}/torch/functional.py", line 9'
    assert user_location(trace) == "boxes.py:7"
    mine = f'File "{__file__}", line 3\n'
    assert own_location(mine + trace) == "test_refusals.py:3", "whose name none of theirs may have"
    assert own_location(trace) == "boxes.py:7"
    assert said_location(trace) == "boxes.py:7"
    assert said_location(mine + trace) == "test_refusals.py:3, in boxes.py:7"
    assert said_location(trace + mine) == "test_refusals.py:3"
    assert is_optimizers(f"{packages}/torch_optimizer/radam.py")
    assert not is_optimizers(f"{packages}/torch/functional.py")


def test_lines_of_python_itself_are_no_users() -> None:
    """But those of packages that are installed below it, as without a virtual environment."""
    python = pathlib.Path(os.__file__).parent
    trace = 'File "/home/me/step.py", line 3\n' + f'File "{python}/contextlib.py", line 144'
    assert user_location(trace) == "step.py:3"
    trace += f'\nFile "{python}/site-packages/timm/layers.py", line 7'
    assert user_location(trace) == "layers.py:7"
    assert is_optimizers(f"{python}/site-packages/torch_optimizer/radam.py")
    assert not is_optimizers(f"{python}/functools.py")


def test_packages_of_another_environment_are_installed() -> None:
    """As where one environment is laid over another."""
    assert is_local("/home/me/step.py")
    for folder in ("/opt/base/lib/python3.11/site-packages", "/usr/lib/python3/dist-packages"):
        assert not is_local(f"{folder}/timm/layers.py")


def test_python_state_that_the_forward_changes_is_a_warning(tmp_path: pathlib.Path) -> None:
    class Counts(nn.Linear):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return super().forward(x)

    exported = export(classify(nn.Sequential(Counts(8, 3))), tmp_path)
    assert any("changes Python state of model.0" in text for text in exported.warnings)


def fake_step() -> TrainingStep:
    with FakeTensorMode():
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3))
        inputs = {"x": torch.randn(4, 8), "y": torch.zeros(4, dtype=torch.int64)}
        return TrainingStep(model, cross_entropy, sgd(model), inputs)


def test_fake_tensors_export_without_weights(tmp_path: pathlib.Path) -> None:
    assert export_step(fake_step(), tmp_path / "step.pt", weights=False) == [tmp_path / "step.pt"]
    assert [path.name for path in tmp_path.iterdir()] == ["step.pt"]


def test_fake_tensors_have_no_weights_to_export(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ExportError, match="export with --no-weights"):
        export_step(fake_step(), tmp_path / "step.pt")


def test_an_error_leaves_an_earlier_export_as_it_was(tmp_path: pathlib.Path) -> None:
    export(classify(nn.Linear(8, 3)), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ExportError):
        export(classify(Model(reads_a_number)), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_is_not_there(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ExportError, match="No such file or directory"):
        export(classify(nn.Linear(8, 3)), tmp_path / "missing")


@pytest.mark.provokes("FSDP-E0211")
def test_an_argument_that_torchscript_does_not_have() -> None:
    def name_of(value: Any) -> Optional[str]:
        return "x" if value == "%x" else None

    with pytest.raises(ExportError, match=r"step.py:3: aten.mul.Tensor has slice\(.*\) as its arg"):
        call_text(torch.ops.aten.mul.Tensor, ["%x", slice(2)], name_of, "step.py:3")


@pytest.mark.parametrize("asked", [False, True])
def test_pytorchs_log_does_not_stand_in_front_of_an_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """Unless the environment asks for it."""
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.name)
    log = logging.getLogger("torch._subclasses.fake_tensor")
    monkeypatch.setattr(log, "handlers", [*log.handlers, handler])
    monkeypatch.delenv("TORCH_TRACE", raising=False)
    monkeypatch.setenv("TORCH_LOGS", "+dynamo" if asked else "")
    with pytest.raises(ExportError, match="the step raises RuntimeError: a and b must have same"):
        export(classify(Model(lambda layer, x: layer(x) @ torch.ones(7, 7))), tmp_path)
    assert bool(logged) == asked

"""Tests that what `torch.jit` and `torch.compile` make of parts of a step trains with eager's bits."""

import copy
import pathlib
import re
import threading
from typing import Callable

import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, export
from torch import Tensor, nn

from fsdp_mlir import ExportError

LOCK = threading.Lock()


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


@pytest.mark.parametrize("part", ("model", "in place", "block", "loss"))
def test_what_torch_compiles_is_captured(part: str, tmp_path: pathlib.Path) -> None:
    """As without it, under the names of `state_dict()`."""
    torch.manual_seed(2)
    model: nn.Module = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    plain = export(classify(copy.deepcopy(model), loss=loss_of), tmp_path)
    if part == "block":
        model[0] = torch.compile(model[0])
    elif part == "in place":
        model.compile()
    elif part == "model":
        model = torch.compile(model)
    loss = torch.compile(loss_of) if part == "loss" else loss_of
    exported = export(classify(model, loss=loss), tmp_path)
    assert exported.results("gradient") == [name for name, _ in model.named_parameters()]
    assert exported.ops() == plain.ops()
    for ours, eagers in zip(exported.run().values(), plain.run().values(), strict=True):
        assert torch.equal(ours, eagers)


@torch.jit.script
def gated(x: Tensor, slope: float = 2.0) -> Tensor:
    if x.dim() == 2:
        x = x * slope
    return x * torch.sigmoid(x)


class Block(nn.Module):
    """Has what differs between training and evaluation, and draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.drop = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = x + 1
        return gated(self.drop(self.norm(self.layer(x))))


class Marked(nn.Module):
    """Marks for a compiler that does not come."""

    @torch.jit.ignore
    def ignored(self, x: Tensor) -> Tensor:
        return x.sin()

    @torch.jit.unused
    def unused(self, x: Tensor) -> Tensor:
        return x.cos()

    @torch.jit.export
    def exported(self, x: Tensor) -> Tensor:
        return x.tanh()

    def forward(self, x: Tensor) -> Tensor:
        if torch.jit.is_scripting():
            return x
        return self.exported(self.unused(self.ignored(x)))


class Calls(nn.Module):
    def __init__(self, locked: bool) -> None:
        super().__init__()
        self.locked = locked

    def forward(self, x: Tensor) -> Tensor:
        if self.locked:
            with LOCK:
                return gated(x)
        return gated(x)


def whole() -> nn.Module:
    return torch.jit.script(nn.Sequential(Block(), nn.Linear(8, 3)))


def part(module: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(8, 8), module(), nn.Linear(8, 3))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "function": part(lambda: Calls(locked=False)),
    "function, by running": part(lambda: Calls(locked=True)),
    "module": part(lambda: torch.jit.script(Block())),
    "traced module": part(lambda: torch.jit.trace(nn.Linear(8, 8), torch.randn(4, 8))),
    "marked methods": part(Marked),
    "whole model": whole,
}


@pytest.mark.quick
@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_eagers_bits(tmp_path: pathlib.Path, name: str) -> None:
    torch.manual_seed(0)
    # What TorchScript has run some times, it differentiates by itself: other last bits.
    with torch.jit.optimized_execution(False):
        exported = assert_same_as_eager(classify(MODELS[name]()), tmp_path)
    assert {op.partition("::")[0] for op in exported.ops()} == {"aten"}


@pytest.mark.parametrize("name", MODELS)
def test_what_was_run_before_is_captured_alike(tmp_path: pathlib.Path, name: str) -> None:
    model = MODELS[name]()
    fresh = export(classify(model), tmp_path).ops()
    for _ in range(3):
        model(torch.randn(4, 8)).sum().backward()
    model.zero_grad()
    assert export(classify(model), tmp_path).ops() == fresh


@torch.jit.script
def branches(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        x = x + 1
    return x


class Scripted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return branches(x)


class Around(nn.Linear):
    def __init__(self) -> None:
        super().__init__(8, 3)
        self.inner = torch.jit.script(Scripted())

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(super().forward(x))


def test_a_branch_on_values_is_refused(tmp_path: pathlib.Path) -> None:
    line = branches._torchdynamo_inline.__code__.co_firstlineno
    with pytest.raises(ExportError) as error:
        export(classify(Around()), tmp_path)
    place, _, message = str(error.value).partition(": ")
    assert place in (f"test_torchscript.py:{line + 2}", f"test_torchscript.py:{line}")
    assert re.search(
        "value of a tensor.*use torch.where|a tensor's value.*keep it a tensor", message
    )

"""Tests that a backward pass whose code is the user's reads and writes the model's states as forward
does: hooks of gradients, and functions with a backward of their own."""

from __future__ import annotations

import contextlib
import pathlib
import threading

import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, export
from torch import Tensor, nn

from fsdp_mlir import ExportError

LOCK = threading.Lock()


class Hooked(nn.Linear):
    """Its result's gradient goes through `hook`."""

    def __init__(self, locked: bool = False) -> None:
        super().__init__(8, 3)
        self.register_buffer("mean", torch.full((3,), 2.0))
        self.lock = LOCK if locked else contextlib.nullcontext()  # where Dynamo gives up

    def forward(self, x: Tensor) -> Tensor:
        with self.lock:
            y = super().forward(x)
            y.register_hook(self.hook)
            return y


class Reads(Hooked):
    def hook(self, gradient: Tensor) -> Tensor:
        return gradient * self.weight.mean()


class Averages(Hooked):
    def hook(self, gradient: Tensor) -> Tensor:
        gradient = gradient * self.mean
        self.mean.mul_(0.9).add_(gradient.abs().mean(0))
        return gradient


class CountsBothWays(Hooked):
    def __init__(self, locked: bool = False) -> None:
        super().__init__(locked)
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1.0)
        return super().forward(x)

    def hook(self, gradient: Tensor) -> Tensor:
        self.count.mul_(3.0)
        return gradient * self.count


class Replaces(Hooked):
    def hook(self, gradient: Tensor) -> Tensor:
        self.mean = self.mean + gradient.mean(0)
        return gradient


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize(
    "model, written", [(Reads, set()), (Averages, {"mean"}), (CountsBothWays, {"count"})]
)
def test_states(
    tmp_path: pathlib.Path, model: type[Hooked], written: set[str], locked: bool
) -> None:
    exported = assert_same_as_eager(classify(model(locked)), tmp_path)
    assert set(exported.results("buffer_update")) == written


def test_an_export_leaves_buffers_as_they_are(tmp_path: pathlib.Path) -> None:
    model = Averages(locked=True)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        model.logits = model(x)  # for which it tries two steps
        return F.cross_entropy(model.logits, y)

    export(classify(model, loss=loss), tmp_path)
    assert torch.equal(model.mean, torch.full((3,), 2.0))


@pytest.mark.provokes("FSDP-E0213")
def test_a_buffer_that_is_replaced(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        ExportError, match="a backward pass puts another tensor in the place of mean;"
    ):
        export(classify(Replaces()), tmp_path)

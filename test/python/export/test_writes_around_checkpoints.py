"""Tests that a step may write where its checkpoints save, read and give, as in eager mode: that computes a
checkpoint again in its backward, up to the last value that was saved."""

from __future__ import annotations

import pathlib
import warnings
from typing import Callable

import pytest
import torch
from exporting import adamw, classify, cross_entropy, export
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import fsdp_mlir


def saved_then_written(x: Tensor) -> Tensor:
    y = torch.tanh(x)
    y.mul_(2)  # behind the last value that is saved: tanh's gradient is of what it gave
    return y


def saved_written_and_saved(x: Tensor) -> Tensor:
    y = torch.tanh(x)
    y.mul_(2)
    return y.sin()  # saves it again: tanh's gradient is of what was written, as eager's is


def written_unseen(x: Tensor) -> Tensor:
    y = torch.tanh(x)
    y.data.mul_(2)
    return y + 1


def only_read(x: Tensor) -> Tensor:
    return torch.tanh(x * x)


def as_given(y: Tensor) -> Tensor:
    return y


def written(y: Tensor) -> Tensor:
    return y.mul_(0.5)


def written_by_data(y: Tensor) -> Tensor:
    y.data.mul_(0.5)
    return y


class Model(nn.Module):
    """Calls `block` in a checkpoint, and then `use` with what that gives."""

    def __init__(self, block: Callable[..., Tensor], use: Callable[..., Tensor] = as_given) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(8, 8), nn.Linear(8, 3)
        self.register_buffer("mean", torch.full((8,), 0.5))
        self.block, self.use = block, use

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.use(checkpoint(self.block, self.first(x), use_reentrant=False)))


def trained(model: nn.Module) -> dict[str, Tensor]:
    """The states that three steps of a plan leave, and `losses`."""
    step = classify(model, optimizer=adamw(model))
    with fsdp_mlir.compile(step) as run:
        losses = [run(step.inputs) for _ in range(3)]
        return {**run.state_dict(), "losses": torch.tensor(losses)}


def trained_eagerly(model: nn.Module) -> dict[str, Tensor]:
    optimizer, losses = adamw(model), []
    for _ in range(3):
        loss = cross_entropy(model, **classify(model).inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return {**model.state_dict(), "losses": torch.tensor(losses)}


def seeded(*args: Callable[..., Tensor]) -> nn.Module:
    torch.manual_seed(0)
    return Model(*args)


@pytest.mark.parametrize("use", [as_given, written, written_by_data])
@pytest.mark.parametrize(
    "block", [saved_then_written, saved_written_and_saved, written_unseen, only_read]
)
def test_it_has_eagers_bits(block: Callable[..., Tensor], use: Callable[..., Tensor]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fsdp_mlir.errors.ExportNote)
        ours = trained(seeded(block, use))
    theirs = trained_eagerly(seeded(block, use))
    different = [name for name, tensor in theirs.items() if not torch.equal(ours[name], tensor)]
    assert not different


class Centered(Model):
    """Computes with what `change` changes in its checkpoint, or behind it. Eager's backward reads it again."""

    def __init__(self, change: Callable[[nn.Module, Tensor], None], is_inside: bool) -> None:
        super().__init__(lambda x: torch.tanh((x - self.mean) * self.calls))
        self.change, self.is_inside, self.calls = change, is_inside, 1

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        y = checkpoint(self._inside if self.is_inside else self.block, x, use_reentrant=False)
        if not self.is_inside:
            self.change(self, x.detach())
        return self.head(y)

    def _inside(self, x: Tensor) -> Tensor:
        y = self.block(x)
        self.change(self, x.detach())
        return y


def moved(model: nn.Module, x: Tensor) -> None:
    model.mean.lerp_(x.mean(0), 0.1)


def moved_by_data(model: nn.Module, x: Tensor) -> None:
    model.mean.data.mul_(0.9).add_(x.mean(0), alpha=0.1)


def replaced(model: nn.Module, x: Tensor) -> None:
    model.mean = torch.lerp(model.mean, x.mean(0), 0.1)


def counted(model: nn.Module, x: Tensor) -> None:
    model.calls += 1


def left_alone(model: nn.Module, x: Tensor) -> None:
    return None


def warned(model: nn.Module, folder: pathlib.Path) -> list[str]:
    found = export(classify(model), folder).warnings
    return [text for text in found if "a checkpoint computes with what the step changes" in text]


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("change", [moved, moved_by_data, replaced, counted])
def test_a_change_of_what_it_reads_is_said(
    change: Callable[..., None], is_inside: bool, tmp_path: pathlib.Path
) -> None:
    (text,) = warned(Centered(change, is_inside), tmp_path)
    assert text.startswith(f"{pathlib.Path(__file__).name}:")


@pytest.mark.parametrize(
    "model",
    [
        Centered(left_alone, True),
        Model(nn.Sequential(nn.BatchNorm1d(8), nn.Dropout(0.1), nn.ReLU(inplace=True))),
    ],
    ids=["read", "batch_norm"],
)
def test_nothing_is_said_of_others(model: nn.Module, tmp_path: pathlib.Path) -> None:
    assert warned(model, tmp_path) == []

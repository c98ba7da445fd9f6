"""Tests of what the first step makes in Python (`if self.mean is None:`) and later ones compute with: it is
a buffer from then on, and each step decides by another one whether it was made. The losses are eager's.
"""

from __future__ import annotations

import functools
import pathlib
import types
from typing import Any, Callable, Optional

import pytest
import torch
from exporting import assert_same_as_eager, assert_trains_as_eager, classify, export
from torch import Tensor, nn

from fsdp_mlir import ExportError


class Makes(nn.Linear):
    """Starts with nothing."""

    def __init__(self, uses: Callable[[Any, Tensor, Tensor], Tensor]) -> None:
        super().__init__(8, 3)
        self.uses = uses
        self.mean: Any = None
        self.last: Optional[Tensor] = None
        self.begun = False
        self.moments: dict[str, Tensor] = {}
        self.queue: list[Any] = [None, None]
        self.sum: Any = 0

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return self.uses(self, y, y.detach().mean(0))


def a_mean(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    m.mean = mean if m.mean is None else 0.9 * m.mean + 0.1 * mean
    m.last = y  # which nothing reads
    return y - m.mean


def a_mean_of_losses(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    loss = mean.abs().mean().item()
    m.mean = loss if m.mean is None else 0.9 * m.mean + 0.1 * loss
    return y / (1 + m.mean)


def a_number_and_a_tensor(m: Any, y: Tensor, mean: Tensor) -> Tensor:
    """At once, and in attributes that the object has not."""
    if not hasattr(m, "calls"):
        m.calls, m.total = 0, torch.zeros(3)
    m.calls += 1
    m.total.add_(mean)
    return y - m.total / m.calls


def a_tensor_by_a_flag(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    """No step finds the flag without the tensor, of which a plan need not know."""
    if m.begun:
        m.mean = 0.9 * m.mean + 0.1 * mean
    else:
        m.mean, m.begun = mean, True
    return y - m.mean


def members_of_a_dict(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    if "mean" not in m.moments:
        m.moments["mean"] = mean
    m.moments["mean"] = 0.5 * (m.moments["mean"] + mean)
    return y - m.moments["mean"]


def a_queue(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    m.queue.append(mean)
    last = m.queue.pop(0)
    return y if last is None else y - last


def a_tensor_for_a_number(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    m.sum = 0.9 * m.sum + mean
    return y - m.sum


def pairs(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    """As the hidden state of an LSTM: new tuples, and here lists in them."""
    if m.mean is not None:
        y = y - m.mean[0] * m.mean[1][0]
    m.mean = mean, [y.detach().std(0), mean.abs()]
    return y


def one_that_goes_away(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    last, m.last = m.last, mean if m.last is None else None
    return y if last is None else y - last


USES = (a_mean, a_mean_of_losses, a_number_and_a_tensor, a_tensor_by_a_flag)
MORE = (members_of_a_dict, a_queue, a_tensor_for_a_number, pairs, one_that_goes_away)


@pytest.mark.parametrize("uses", [*USES, *MORE])
def test_what_the_first_step_makes_is_a_buffer(uses: Any) -> None:
    assert_trains_as_eager(lambda: Makes(uses))


class Centers(nn.Linear):
    """Has a buffer without a tensor, which no state_dict has."""

    def __init__(self) -> None:
        super().__init__(8, 3)
        self.register_buffer("center", None)

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        center, self.center = self.center, y.detach().mean(0)
        return y if center is None else y - center


def test_a_buffer_of_none_is_filled(tmp_path: pathlib.Path) -> None:
    exported = export(classify(Centers()), tmp_path)
    assert exported.results("buffer_update") == [
        "fsdp.begun.model.center",
        "fsdp.python.model.center",
    ]


def one_of_two(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    if m.mean is None:
        m.mean, m.last = mean, mean.abs()
    y = y - m.mean * (1 if m.last is None else m.last)
    m.last = m.last if y.sum() < 3 else None
    return y


def another_shape(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    if m.mean is not None:
        y = y - m.mean.mean()
    m.mean = mean if m.mean is None else y.detach()
    return y


def a_queue_of_pairs(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    """Of which the first two steps read the same."""
    m.queue.append((1.0, mean))
    last = m.queue.pop(0)
    return y if last is None else y - last[1]


def an_object(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    if m.mean is not None:
        y = y - m.mean.value
    m.mean = types.SimpleNamespace(value=mean)
    return y


def chosen_rows(m: Makes, y: Tensor, mean: Tensor) -> Tensor:
    if m.last is None:
        m.last = y.detach()[y[:, 0] > 0]
    return y - m.last.sum(0)


REFUSED = {
    a_queue_of_pairs: r"test_made_state.py:\d+: a later step computes with what moves through model.queue, Python state",
    an_object: r"test_made_state.py:\d+: .*has left in Python state, as in an object",
    one_of_two: "makes model.mean, model.last at once, .* leaves nothing in model.last; give them",
    chosen_rows: "a tensor in model.last whose shape depends on values; .* run the model on a batch",
    another_shape: r"puts \(4, 3\) of torch.float32 in the place of model.mean; keep it \(3,\)",
}


@pytest.mark.provokes("FSDP-E0207", "FSDP-E0213")
@pytest.mark.parametrize("uses", REFUSED)
def test_what_is_made_otherwise_is_refused(uses: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ExportError, match=REFUSED[uses]):
        export(classify(Makes(uses)), tmp_path)


class Table:
    """Of a library: what its property computes is kept in each object."""

    __module__ = torch.__name__

    @functools.cached_property
    def values(self) -> Tensor:
        values = torch.zeros(3)
        values[1] = 2.0
        return values


class Looks(nn.Linear):
    def __init__(self) -> None:
        super().__init__(8, 3)
        self.table = Table()

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y + self.table.values[y.argmax(1)][:, None]


def test_what_an_object_of_a_library_computes_once_is_a_constant(tmp_path: pathlib.Path) -> None:
    exported = assert_same_as_eager(classify(Looks()), tmp_path)
    assert "changes Python state of model.table.values" in exported.warnings[0]

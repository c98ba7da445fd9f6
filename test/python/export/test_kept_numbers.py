"""Tests that a number which a step keeps in Python may be a place, a size or an argument, and be
printed, and that it may keep tensors, with the losses of eager mode."""

from __future__ import annotations

import functools
import pathlib
from typing import Any, Callable

import numpy as np
import pytest
import torch
from exporting import assert_trains_as_eager, classify, cross_entropy, export
from torch import Tensor, nn

import fsdp_mlir
from fsdp_mlir import ExportError, RunError


class Options(dict):
    """As scripts have it for their configuration; it has no attribute of another name."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Counts(nn.Linear):
    def __init__(self, uses: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__(8, 3)
        self.uses, self.steps, self.options = uses, 0, Options(scale=2.0, rounds=1)
        self.register_buffer("table", torch.linspace(0.5, 1, 8))
        self.register_buffer("bank", torch.zeros(12, 3))
        self.register_buffer("mean", torch.zeros(3))
        self.embedding = nn.Embedding(8, 3)
        self.hidden, self.count = torch.zeros(3), torch.tensor(0.0)  # no buffers
        self.queue = [torch.zeros(3) for _ in range(4)]
        self.centers = [torch.zeros(3), torch.ones(3)]

    def forward(self, x: Tensor) -> Tensor:
        y = self.uses(self, super().forward(x))
        self.steps += 1
        return y


def is_a_place(m: Counts, y: Tensor) -> Tensor:
    return y * m.table[m.steps] + m.embedding(torch.tensor([m.steps])) + y.roll(m.steps, -1)


def is_a_size(m: Counts, y: Tensor) -> Tensor:
    return y + y[: 1 + m.steps % 4].sum(0)


def is_where_a_bank_is_written(m: Counts, y: Tensor) -> Tensor:
    first = 4 * m.steps % 12
    m.bank[first : first + 4] = y.detach()
    return y - m.bank.mean(0)


def fills(m: Counts, y: Tensor) -> Tensor:
    y = y * torch.full_like(y, 1 + m.steps / 10) + y.new_full((3,), 0.1 * m.steps)
    return y + m.embedding(torch.full((4,), m.steps))


def bounds(m: Counts, y: Tensor) -> Tensor:
    y = y.clamp(max=0.2 * (1 + m.steps)).clamp(-1, 0.3 * (1 + m.steps))
    y = y.masked_fill(y > 0.5, 0.1 * m.steps)
    return torch.where(y < 0, y, 0.01 * m.steps)


def weighs_a_mean(m: Counts, y: Tensor) -> Tensor:
    decay = min(0.99, (1 + m.steps) / (10 + m.steps))
    with torch.no_grad():
        m.mean.lerp_(y.mean(0), 1 - decay)
    return y - m.mean


def is_an_exponent(m: Counts, y: Tensor) -> Tensor:
    """Of which the first steps do not see that it changes."""
    return y * 0.5 ** (m.steps // 3)


def computes_whole_numbers(m: Counts, y: Tensor) -> Tensor:
    quotient, rest = divmod(7 * m.steps, 5)
    n = (1 << m.steps) + (m.steps << 3 >> 2) - ~rest + 2**m.steps - 3 * m.steps**2
    return y * n + quotient / 7 + divmod(30, m.steps + 1)[1]


def is_one_of_three(m: Counts, y: Tensor) -> Tensor:
    return y * max(m.steps, 2, 3) + min([4, m.steps, 0.5 * m.steps + 1])


def is_given_to_numpy(m: Counts, y: Tensor) -> Tensor:
    """Whose numbers are of 64 bits, also where `torch.tensor` takes them."""
    rate = np.maximum(np.exp(-0.1 * m.steps), 0.5) + np.float64(0.3) * m.steps
    rate += np.clip(m.steps / 2, 0, 0.7) + np.cos(np.pi * m.steps / 8) - np.floor(m.steps / 3)
    y = y * torch.tensor([rate, np.square(m.steps)]).float().sum()
    rate = min(rate, np.log(3.0))
    return y + 1 if np.minimum(m.steps, 2) > 1 and torch.tensor(rate).dtype == torch.float64 else y


def is_an_option(m: Counts, y: Tensor) -> Tensor:
    m.options.rounds += 1
    return y * m.options.scale / m.options.rounds


def is_an_int(m: Counts, y: Tensor) -> Tensor:
    y = y * m.steps if isinstance(m.steps, int) and not isinstance(m.steps, (str, float)) else y
    return y * m.table[m.steps] if type(m.steps) is int and isinstance(int, type) else y


def is_printed(m: Counts, y: Tensor) -> Tensor:
    print(f"step {m.steps}", round(m.steps / 7, 2), "%d: %.3f" % (m.steps, y.mean().item()))
    return y * (1 + m.steps)


USES = (
    is_a_place,
    is_a_size,
    is_where_a_bank_is_written,
    fills,
    bounds,
    weighs_a_mean,
    is_an_exponent,
    computes_whole_numbers,
    is_one_of_three,
    is_given_to_numpy,
    is_an_option,
    is_an_int,
)


@pytest.mark.parametrize("uses", [*USES, is_printed])
def test_a_number_is_what_it_is_in_eager_mode(uses: Any) -> None:
    assert_trains_as_eager(lambda: Counts(uses))


def test_a_whole_number_that_does_not_fit_ends_the_run() -> None:
    """Tests that a shift has Python's number or none; Python's has as many bits as it needs."""
    step = classify(Counts(lambda m, y: y + (1 << 21 * m.steps) / 2.0**63))
    with fsdp_mlir.compile(step) as run:
        for _ in range(3):
            run(step.inputs)
        with pytest.raises(RunError, match=r"test_kept_numbers.py:\d+: .* of at most 63 bits here"):
            run(step.inputs)


def keeps_a_mean(m: Counts, y: Tensor) -> Tensor:
    m.hidden = 0.9 * m.hidden + 0.1 * y.detach().mean(0)
    return y - m.hidden


def keeps_the_last_two(m: Counts, y: Tensor) -> Tensor:
    m.centers.append(y.detach().mean(0))
    m.count = m.count + 1
    return (y - m.centers.pop(0)) * m.count


def keeps_four(m: Counts, y: Tensor) -> Tensor:
    """Of which the first steps read the same zeros."""
    m.queue.append(y.detach().mean(0))
    return y - m.queue.pop(0)


def keeps_each_second(m: Counts, y: Tensor) -> Tensor:
    if m.steps % 2 == 0:
        m.hidden = y.detach().mean(0)
    return y - m.hidden


@pytest.mark.parametrize("uses", [keeps_a_mean, keeps_the_last_two, keeps_four, keeps_each_second])
def test_a_tensor_is_what_it_is_in_eager_mode(uses: Any) -> None:
    assert_trains_as_eager(lambda: Counts(uses))


def keeps_a_gradient(m: Counts, y: Tensor) -> Tensor:
    y = y - m.hidden.detach()
    m.hidden = y.mean(0)
    return y


@pytest.mark.provokes("FSDP-E0213")
def test_a_tensor_with_a_gradient_is_refused(tmp_path: Any) -> None:
    with pytest.raises(ExportError, match="with a gradient in the place of model.hidden; detach"):
        export(classify(Counts(keeps_a_gradient)), tmp_path)


def is_in_a_text(m: Counts, y: Tensor) -> Tensor:
    weights = {"1": 0.5}
    return y * weights.get(f"{m.steps}", m.steps)  # which prints nothing


@pytest.mark.provokes("FSDP-E0207")
def test_a_text_that_is_more_than_shown_is_refused(tmp_path: Any) -> None:
    with pytest.raises(ExportError, match=r"test_kept_numbers.py:\d+: .*model\.steps.* a text"):
        export(classify(Counts(is_in_a_text)), tmp_path)


def by_a_variable_around(kind: str) -> nn.Module:
    """A module whose code counts in a variable of the function that makes its class."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return steps

    class Model(nn.Linear):
        counted = staticmethod(count)
        numbered = property(lambda self: count())

        def forward(self, x: Tensor) -> Tensor:
            nonlocal steps
            if kind == "method":
                steps += 1
                return super().forward(x) * steps
            return super().forward(x) * (self.numbered if kind == "property" else self.counted())

    return Model(8, 3)


@pytest.mark.parametrize("kind", ["method", "property", "staticmethod"])
def test_a_variable_around_a_method(kind: str) -> None:
    assert_trains_as_eager(lambda: by_a_variable_around(kind))


def test_a_variable_around_what_a_loss_is_wrapped_in() -> None:
    calls = 0

    @functools.wraps(cross_entropy)
    def counted(*args: Any, **kwargs: Any) -> Tensor:
        nonlocal calls
        calls += 1
        return cross_entropy(*args, **kwargs) * calls

    def make() -> nn.Module:
        nonlocal calls
        calls = 0
        return nn.Linear(8, 3)

    assert_trains_as_eager(make, counted)


def test_an_attribute_of_a_parameter_is_refused(tmp_path: pathlib.Path) -> None:
    class Model(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            self.weight.calls = getattr(self.weight, "calls", 0) + 1
            return super().forward(x) * self.weight.calls

    with pytest.raises(ExportError, match="changes calls, an attribute of weight, which a plan"):
        export(classify(Model(8, 3)), tmp_path)

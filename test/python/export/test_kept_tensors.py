"""Tests of tensors that a step leaves in Python: a table that it makes once and then reads, as rotary
embeddings keep their cosines, is what a plan may compute each time; another one is a buffer."""

import pathlib
import threading
from typing import Any, Callable

import pytest
import torch
from exporting import assert_same_as_eager, assert_trains_as_eager, classify, export
from torch import Tensor, nn

from fsdp_mlir import ExportError

LOCK = threading.RLock()  # which Dynamo does not follow


class Keeps(nn.Linear):
    """Keeps what `uses` puts into its attributes, which are no buffers."""

    def __init__(self, uses: Callable[[Any, Tensor], Tensor], runs: bool = False) -> None:
        super().__init__(8, 3)
        self.uses, self.runs = uses, runs
        self.last, self.other = None, None
        self.table: dict[Any, Any] = {}
        self.calls = 0
        self.register_buffer("frequencies", torch.rand(3))
        self.register_buffer("mean", torch.rand(3))
        self.register_buffer("cache", torch.zeros(5, 3), persistent=False)
        self.frozen = nn.Parameter(torch.rand(3), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.runs:
            return self.uses(self, super().forward(x))
        with LOCK:
            return self.uses(self, super().forward(x))


def keeps_what_it_gives(m: Keeps, y: Tensor) -> Tensor:
    m.last = [y, {"mean": y.mean()}]
    return y + m.last[1]["mean"]


def has_tables_of_its_own(m: Keeps, y: Tensor) -> Tensor:
    if m.last is None:
        m.last = torch.arange(100_000).cos()
    return y * m.last[:3] + m.table.setdefault(3, torch.ones(3).cumsum(0))


def has_one_beside_a_count(m: Keeps, y: Tensor) -> Tensor:
    if m.last is None:
        m.last = m.frequencies.cos()
    m.calls += 1
    return y * m.last * (1 + 0.1 * m.calls)


def has_tables_of_a_buffer(m: Keeps, y: Tensor) -> Tensor:
    if 3 not in m.table:
        angles = torch.outer(torch.arange(50_000.0), m.frequencies)
        m.table[3] = angles.cos(), angles.sin()
    cosines, sines = m.table[3]
    return y * cosines[4] + sines[5]


def angles(m: Keeps) -> Tensor:
    """As rotary-embedding-torch: of a frozen parameter, kept in the first rows of a buffer."""
    if m.calls >= 2:
        return m.cache[:2]
    table = torch.outer(torch.arange(2.0), m.frozen)
    m.cache[:2] = table
    m.calls = 2
    return table


def fills_a_buffer(m: Keeps, y: Tensor) -> Tensor:
    return y * angles(m).cos()[1] + angles(m)[1:].sin()  # now computed, and then read


def fills_its_rows_alike(m: Keeps, y: Tensor) -> Tensor:
    if m.calls < 2:
        m.cache[:2], m.calls = m.frequencies.cos(), 2
    return y * m.cache[1]


TABLES = has_tables_of_its_own, has_tables_of_a_buffer, fills_a_buffer, fills_its_rows_alike


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("uses", TABLES)
def test_a_table_is_computed_each_time(uses: Any, runs: bool, tmp_path: pathlib.Path) -> None:
    exported = assert_same_as_eager(classify(Keeps(uses, runs)), tmp_path)
    (warning,) = exported.warnings
    assert "no step computes with what an earlier" in warning


def test_a_table_beside_a_count(tmp_path: pathlib.Path) -> None:
    exported = export(classify(Keeps(has_one_beside_a_count)), tmp_path)
    assert any("changes model.calls, with which it computes" in text for text in exported.notes)


def test_what_is_left_is_not_read(tmp_path: pathlib.Path) -> None:
    exported = assert_same_as_eager(classify(Keeps(keeps_what_it_gives)), tmp_path)
    assert ["no step computes with what an earlier" in text for text in exported.warnings] == [True]


def adds_the_last(m: Keeps, y: Tensor) -> Tensor:
    last, m.last = m.last, y.detach()
    return y if last is None else y + last


def divides_by_the_first(m: Keeps, y: Tensor) -> Tensor:
    return y / m.table.setdefault("scale", y.detach().abs().mean())


def does_something_else_behind(m: Keeps, y: Tensor) -> Tensor:
    if m.last is None:
        m.last = m.frequencies.cos()
        return y * m.last
    return -y * m.last


def reads_another(m: Keeps, y: Tensor) -> Tensor:
    if m.last is None:
        m.last, m.other = m.frequencies.cos(), m.frequencies.sin()
        return y * m.last
    return y * m.other


def has_one_of_what_changes(m: Keeps, y: Tensor) -> Tensor:
    if m.last is None:
        m.last = m.mean.cos()
    with torch.no_grad():
        m.mean.mul_(0.9)
    return y * m.last


def has_one_of_what_is_replaced(m: Keeps, y: Tensor) -> Tensor:
    if m.last is None:
        m.last = m.mean.cos()
    m.mean = m.mean * 0.9
    return y * m.last


def has_one_of_a_weight(m: Keeps, y: Tensor) -> Tensor:
    if m.last is None:
        m.last = m.weight.detach().mean()
    return y * m.last


def has_one_that_is_drawn(m: Keeps, y: Tensor) -> Tensor:
    if m.last is None:
        m.last = torch.rand(3)
    return y * m.last


OTHERS = (
    *(adds_the_last, divides_by_the_first, does_something_else_behind),
    *(reads_another, has_one_of_what_changes),
    *(has_one_of_what_is_replaced, has_one_of_a_weight),
)


@pytest.mark.parametrize("uses", OTHERS)
def test_another_one_is_a_buffer(uses: Any) -> None:
    assert_trains_as_eager(lambda: Keeps(uses))


def fills_a_buffer_later(m: Keeps, y: Tensor) -> Tensor:
    y = y + m.cache[1]
    return y * angles(m)[1]


def reads_more_than_was_filled(m: Keeps, y: Tensor) -> Tensor:
    return y * (torch.ones(3) if m.calls == 0 else m.cache[2]) * angles(m)[1]


def fills_a_buffer_with_a_batch(m: Keeps, y: Tensor) -> Tensor:
    if m.calls == 0:
        m.cache[:1] = y[:1].detach()
        m.calls = 1
    return y * m.cache[0]


def changes_what_it_filled(m: Keeps, y: Tensor) -> Tensor:
    y = y + angles(m)[1]
    m.cache[1:2] += 1
    return y


FILLS = (fills_a_buffer_later, fills_a_buffer_with_a_batch, changes_what_it_filled)


@pytest.mark.parametrize("uses", FILLS)
def test_a_buffer_is_filled_by_a_decision(uses: Any) -> None:
    assert_trains_as_eager(lambda: Keeps(uses))


@pytest.mark.provokes("FSDP-E0207")
def test_more_of_a_buffer_than_a_step_fills_is_refused(tmp_path: pathlib.Path) -> None:
    text = r"^test_kept_tensors.py:\d+: the step changes model.calls, .* needs it as one"
    with pytest.raises(ExportError, match=text):
        export(classify(Keeps(reads_more_than_was_filled)), tmp_path)

"""Tests that the tool which looks for differing bits names the operator that gives them."""

from __future__ import annotations

from typing import Callable, Optional

import pytest
import torch

from support.first_difference import calls_like, first_difference
from support.recorded_calls import Call, Calls, Value

pytestmark = pytest.mark.quick

X = torch.linspace(0, 1, 12).reshape(3, 4)


def _calls(function: Callable[[], torch.Tensor]) -> tuple[list[Call], torch.Tensor]:
    with Calls() as mode:
        result = function()
    return mode.calls, result


def _first(
    eager: Callable[[], torch.Tensor], planned: Callable[[], torch.Tensor]
) -> Optional[Call]:
    calls, end = _calls(eager)
    return first_difference(calls, _calls(planned)[0], [Value.of(end)])


def test_the_first_operator_with_other_bits_is_named() -> None:
    def eager() -> torch.Tensor:
        return X.mul(3).add(1).sum()

    assert _first(eager, lambda: X.clone().mul(3).add(1).sum()) is None
    call = _first(eager, lambda: X.mul(3).add(2).sum())
    assert call is not None and call.name == "aten.add"
    assert "[3, 4] strides [4, 1]" in str(call)
    (like,) = calls_like(call, _calls(lambda: X.mul(3).add(2))[0])
    assert like.operator == "aten.add.Tensor"


def test_what_leads_nowhere_is_passed_over() -> None:
    """As what a fused kernel of the plan computes within, where its result is eager's."""

    def eager() -> torch.Tensor:
        X.mul(5)
        return torch.relu(X.mul(3).add(1)).mul(7)

    assert _first(eager, lambda: (X * 3 + 1).mul(7)) is None
    call = _first(eager, lambda: (X * 3 + 1).mul(6))
    assert call is not None and call.name == "aten.mul"
    assert call.operands[0] == Value.of(X * 3 + 1)


def test_what_a_dropout_multiplies_by_is_passed_over() -> None:
    """A plan has it as a mask and a number."""

    def eager() -> torch.Tensor:
        kept = X.gt(0.5).float().div(0.9)
        return X.exp().mul(kept)

    call = _first(eager, lambda: X.neg())
    assert call is not None and call.name == "aten.exp"
    call = _first(eager, lambda: X.exp())
    assert call is not None and call.name == "aten.mul"


def test_operators_that_only_move_numbers_are_passed_over() -> None:
    def eager() -> torch.Tensor:
        moved = torch.cat((X[:, 1:], X[:, :1]), 1).t().contiguous()
        return moved.masked_fill(moved > 0.5, 9.0).exp()

    call = _first(eager, lambda: X.clone())
    assert call is not None and call.name == "aten.exp"


def test_a_matrix_is_there_where_its_rows_are() -> None:
    def by_rows() -> torch.Tensor:
        return torch.stack([row.mul(3) for row in X.split(1)])

    call = _first(lambda: X.mul(3).exp(), by_rows)
    assert call is not None and call.name == "aten.exp"


def test_what_is_written_in_place_is_a_result() -> None:
    call = _first(lambda: X.clone().add_(1).mul_(3), lambda: X.add(1).mul(4))
    assert call is not None and call.operator == "aten.mul_.Tensor"


def test_one_element_of_any_stride_has_its_bits() -> None:
    assert Value.of(torch.arange(4)[::2][:1]).digest == Value.of(torch.arange(1)).digest

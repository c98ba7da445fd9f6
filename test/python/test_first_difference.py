"""Tests that the tool which looks for differing bits names the operator that gives them."""

from __future__ import annotations

import pytest
import torch

from support.first_difference import Calls, calls_like, first_difference

pytestmark = pytest.mark.quick


def test_the_first_operator_with_other_bits_is_named() -> None:
    x = torch.linspace(0, 1, 12).reshape(3, 4)
    with Calls() as eager:
        (x.mul(3).add(1)).sum()
    with Calls() as same:
        x.clone().mul(3).add(1).sum()
    assert first_difference(same, eager) is None
    with Calls() as other:
        (x.mul(3).add(2)).sum()
    call = first_difference(other, eager)
    assert call is not None and call.operator == "aten.add.Tensor"
    assert "[3, 4] strides [4, 1]" in str(call)
    (like,) = calls_like(call, eager)
    assert like.operator == "aten.add.Tensor"


def test_masks_and_what_has_unknown_operands_are_passed_over() -> None:
    x = torch.linspace(0, 1, 12)
    with Calls() as eager:
        x.mul(3)
    with Calls() as planned:
        x.gt(0.5)
        torch.full((3,), 7.0).mul(5)
    assert first_difference(planned, eager) is None

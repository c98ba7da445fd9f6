"""Gradients that are sums: of each use of a value its own summand, in the order in which backward comes to
them. A way through the step that uses a value less often has fewer of them."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import torch

from .shared_values import Value, map_values

_aten = torch.ops.aten
# So many calls deep two summands are compared: which weights they are multiplied by says whose they
# are, and what lies deeper is changed by what other uses of the value give.
_DEPTH = 6


@dataclasses.dataclass
class Summand:
    """An operand of a sum, which may be a sum of a sum.

    Attributes:
        addition, position: of which call it is an operand.
        value: the operand.
    """

    addition: Value
    position: int
    value: Value


def summands(value: Value) -> list[Summand]:
    """The operands of a sum of gradients, in order; none: it is none."""
    found: list[Summand] = []
    while is_sum(value):
        first, last = value.operands
        found.append(Summand(value, 1, last))
        if not is_sum(first):
            found.append(Summand(value, 0, first))
        value = first
    return found[::-1]


def is_sum(value: Value) -> bool:
    """Whether it adds two gradients."""
    return (
        value.is_backward
        and value.target is _aten.add.Tensor
        and len(value.operands) == 2
        and not value.arguments[1]
    )


def missing(first: Value, other: Value) -> Optional[list[tuple[Summand, Optional[Value]]]]:
    """Each summand of `first` with the one of `other` that is alike, or None where `other` lacks it. None:
    it lacks none, or has others."""
    ours, theirs = summands(first), [s.value for s in summands(other)] or [other]
    if len(theirs) >= len(ours):
        return None
    found: list[tuple[Summand, Optional[Value]]] = []
    for summand in ours:
        is_there = bool(theirs) and _looks(summand.value) == _looks(theirs[0])
        found.append((summand, theirs.pop(0) if is_there else None))
    return None if theirs else found


def _looks(value: Value, depth: int = _DEPTH) -> Any:
    """What a value is computed by, some calls deep."""
    if depth == 0 or value.op != "call_function":
        return value.op, str(value.target)
    return str(value.target), repr(
        map_values(value.arguments, lambda operand: _looks(operand, depth - 1))
    )

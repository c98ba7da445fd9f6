"""Gradients that are sums: of each use of a value its own summand, in the order in which backward comes to
them. A way through the step that uses a value less often has fewer of them."""

from __future__ import annotations

import dataclasses
import math
from typing import Optional

import torch

from .shared_values import Value

_aten = torch.ops.aten
# So many calls deep two summands are compared, but for calls of one gradient alone, as its views: which
# weights and rows they are computed with says whose they are, and what lies deeper is changed by what
# other uses of the value give.
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
    """Each summand of `first` with the one of `other` that is of the same use, or None where `other`
    lacks it. None: it lacks none."""
    ours, theirs = summands(first), [s.value for s in summands(other)] or [other]
    if len(theirs) >= len(ours):
        return None
    looks = [_looks(summand.value) for summand in ours], [_looks(value) for value in theirs]
    # best[i][j]: how alike the first i of ours and the first j of theirs are, each of which is one of
    # ours, in order.
    best = [[0.0] + [-math.inf] * len(theirs) for _ in range(len(ours) + 1)]
    for i, one in enumerate(looks[0]):
        for j, its in enumerate(looks[1]):
            best[i + 1][j + 1] = max(best[i][j + 1], best[i][j] + _likeness(one, its))
    found: list[tuple[Summand, Optional[Value]]] = []
    j = len(theirs)
    for i in reversed(range(len(ours))):
        is_there = j > 0 and best[i + 1][j] > best[i][j]
        j -= is_there
        found.append((ours[i], theirs[j] if is_there else None))
    return found[::-1]


def _looks(value: Value) -> set[Value]:
    """Which values of the forward pass a gradient is computed with, some calls deep."""
    found: set[Value] = set()
    level = {value}
    for _ in range(_DEPTH):
        level = set(map(_of_several, level))
        below = {operand for gradient in level for operand in gradient.operands}
        level = {operand for operand in below if operand.is_backward}
        found |= below - level
    return found


def _of_several(gradient: Value) -> Value:
    """The first call below that a gradient is of more than one value, or of none."""
    while len(operands := gradient.operands) == 1 and operands[0].is_backward:
        gradient = operands[0]
    return gradient


def _likeness(one: set[Value], other: set[Value]) -> float:
    return (len(one & other) + 1) / (len(one | other) + 1)

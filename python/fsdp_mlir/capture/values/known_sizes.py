"""What a step's answers about sizes say about other questions: a list of more than one element has some.

A library asks `len(pairs) <= 1`, and deeper in its code `len(pairs) > 0` and `pairs.numel() == 0`. Only
the first is a decision where it has settled the others.
"""

from __future__ import annotations

from typing import Optional

import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy


class KnownSizes:
    """The comparisons of sizes that one run of a step has been answered, and the range of each size by
    them."""

    def __init__(self) -> None:
        self._answers: dict[sympy.Rel, bool] = {}
        self._ranges: dict[sympy.Symbol, ValueRanges] = {}

    def follows(self, asked: sympy.Rel, environment: ShapeEnv) -> Optional[bool]:
        """The answer that those before leave no choice about; None: there is a choice."""
        if asked in self._answers:
            return self._answers[asked]
        if not asked.free_symbols & self._ranges.keys():
            return None
        ranges = {size: self._range(size, environment) for size in asked.free_symbols}
        truth = bound_sympy(asked, ranges)
        return bool(truth.lower) if truth.is_singleton() else None

    def note(self, asked: sympy.Rel, answer: bool, environment: ShapeEnv) -> None:
        """Keeps an answer, with what it says about a size, where one is compared with a number."""
        self._answers[asked] = answer
        told = asked if answer else asked.negated
        if told.lhs.is_Integer:
            told = told.reversed
        factor, size = told.lhs.as_coeff_Mul()
        if not (told.rhs.is_Integer and size.is_Symbol and factor > 0):
            return
        known, number = self._range(size, environment), sympy.Rational(told.rhs, factor)
        low, high = known.lower, known.upper
        if isinstance(told, (sympy.GreaterThan, sympy.Eq)):
            low = max(low, sympy.ceiling(number))
        if isinstance(told, (sympy.LessThan, sympy.Eq)):
            high = min(high, sympy.floor(number))
        if (
            isinstance(told, sympy.StrictGreaterThan)
            or isinstance(told, sympy.Ne)
            and number == low
        ):
            low = max(low, sympy.floor(number) + 1)
        if isinstance(told, sympy.StrictLessThan) or isinstance(told, sympy.Ne) and number == high:
            high = min(high, sympy.ceiling(number) - 1)
        if low <= high:
            self._ranges[size] = ValueRanges(low, high)

    def _range(self, size: sympy.Symbol, environment: ShapeEnv) -> ValueRanges:
        return self._ranges.get(size) or environment.bound_sympy(size)

"""What holds whatever a step decides, or by values: True, False, or a value of the graph."""

from __future__ import annotations

from typing import Iterable, Union

import torch

from .shared_values import SharedValues, Value

_aten = torch.ops.aten
Truth = Union[bool, Value]


class Truths:
    """Computes with them, and has the graph compute what values decide."""

    def __init__(self, values: SharedValues) -> None:
        self._values = values

    def where(self, condition: Value, yes: Truth, no: Truth) -> Truth:
        """`yes` where the condition holds, else `no`."""
        if yes is no:
            return yes
        return self.any([self.all([condition, yes]), self.all([self._not(condition), no])])

    def all(self, truths: Iterable[Truth]) -> Truth:
        """Whether each of them holds."""
        return self._joined(truths, _aten.logical_and.default, neutral=True)

    def any(self, truths: Iterable[Truth]) -> Truth:
        """Whether one of them holds."""
        return self._joined(truths, _aten.logical_or.default, neutral=False)

    def _joined(self, truths: Iterable[Truth], operator: object, neutral: bool) -> Truth:
        result: Truth = neutral
        for truth in dict.fromkeys(truths):
            if isinstance(truth, bool):
                if truth is not neutral:
                    return truth
            elif isinstance(result, bool):
                result = truth
            else:
                result = self._values.call(result, operator, result, truth)
        return result

    def _not(self, truth: Value) -> Value:
        return self._values.call(truth, _aten.logical_not.default, truth)

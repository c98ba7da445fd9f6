"""Iterators that the model or its functions keep. What one gives next is something else in each step,
and a plan would have what it gives now."""

from __future__ import annotations

import collections.abc
import itertools
import operator
import types
from typing import Any, Iterable

from ...errors import E, ExportError
from .places import Place

_LIBRARIES = ("builtins", "itertools")


class Iterators:
    """Where those that Python can say it of are now.

    Args:
        places: of the values that a step reaches.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        values = ((place, place.read()) for place in places)
        self._known = [
            (place, value, _position(value))
            for place, value in values
            if isinstance(value, collections.abc.Iterator)
        ]

    def check_unmoved(self) -> None:
        """Raises ExportError where one has given something since."""
        for place, value, position in self._known:
            if _position(value) != position:
                raise ExportError(
                    E.PYTHON_STATE,
                    f"the step takes from {place.name}, an iterator, and the plan would have in each "
                    "step what it gives now; count in a number of Python's or in a buffer, or make "
                    "what it gives an input",
                )


def _position(value: Any) -> Any:
    """Equal as long as an iterator has given nothing; None where it does not say."""
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        return frame and (frame.f_lasti, repr(_numbers(frame.f_locals)))
    if isinstance(value, itertools.count):
        return repr(value)
    if type(value).__module__ not in _LIBRARIES:
        return None
    left = operator.length_hint(value, -1)
    if left >= 0:
        return left
    parts = value.__reduce__()[1:]
    return [_position(part) for member in parts for part in _iterators(member)]


def _iterators(value: Any) -> list[Any]:
    members = value if isinstance(value, (list, tuple)) else [value]
    return [member for member in members if isinstance(member, collections.abc.Iterator)]


def _numbers(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if isinstance(value, (int, float))}

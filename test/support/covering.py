"""Covering arrays: few combinations of many choices in which any few choices meet."""

from __future__ import annotations

import itertools
from typing import Callable, Iterator, Mapping, Optional, Sequence

Row = dict[str, str]
Meeting = frozenset[tuple[str, str]]


def covering(
    axes: Mapping[str, Sequence[str]],
    strength: int = 2,
    allowed: Callable[[Row], bool] = lambda row: True,
) -> list[Row]:
    """Rows with a value for each axis, such that any `strength` values of
    different axes meet in one row, unless no allowed row has them. The same
    rows on every machine.

    Greedy: a row begins with the first values that have not met yet, and gets,
    axis by axis, the value that meets most of the others for the first time.

    Args:
        allowed: says it also of a part of a row: one that is not allowed is
            in no row that is.
    """
    left = dict.fromkeys(_meetings(axes, strength))  # in order, which a set has not
    rows = []
    while left:
        first = next(iter(left))
        row = _completed(dict(first), axes, strength, allowed, left)
        if row is None:
            del left[first]  # which no row has
            continue
        for met in itertools.combinations(row.items(), strength):
            left.pop(frozenset(met), None)
        rows.append({axis: row[axis] for axis in axes})
    return rows


def _meetings(axes: Mapping[str, Sequence[str]], strength: int) -> Iterator[Meeting]:
    for several in itertools.combinations(axes, strength):
        for values in itertools.product(*(axes[axis] for axis in several)):
            yield frozenset(zip(several, values))


def _completed(
    row: Row,
    axes: Mapping[str, Sequence[str]],
    strength: int,
    allowed: Callable[[Row], bool],
    left: Mapping[Meeting, None],
) -> Optional[Row]:
    """`row` with a value for every axis, or None: no allowed row has its values."""
    if not allowed(row):
        return None
    axis = next((axis for axis in axes if axis not in row), None)
    if axis is None:
        return row

    def new(value: str) -> int:
        others = itertools.combinations(row.items(), strength - 1)
        return sum(frozenset([*some, (axis, value)]) in left for some in others)

    for value in sorted(axes[axis], key=new, reverse=True):
        whole = _completed({**row, axis: value}, axes, strength, allowed, left)
        if whole is not None:
            return whole
    return None

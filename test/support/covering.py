"""Covering arrays: few combinations of many choices in which any few choices meet."""

from __future__ import annotations

import heapq
import itertools
from typing import Callable, Mapping, Sequence

Row = dict[str, str]


def covering(
    axes: Mapping[str, Sequence[str]],
    strength: int = 2,
    allowed: Callable[[Row], bool] = lambda row: True,
) -> list[Row]:
    """Rows with a value for each axis, such that any `strength` values of
    different axes meet in one row, unless no allowed row has them. The same
    rows on every machine.

    Greedy: the next row is that of all allowed ones in which most values meet
    that have not yet; of several, the first.
    """
    rows = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    groups = {
        index: frozenset(itertools.combinations(row.items(), strength))
        for index, row in enumerate(rows)
        if allowed(row)
    }
    left = set().union(*groups.values())
    # How many may yet meet in each row: never more than when it was counted.
    most = [(-len(group), index) for index, group in groups.items()]
    heapq.heapify(most)
    found = []
    while left:
        _, index = heapq.heappop(most)
        counted = (-len(groups[index] & left), index)
        if most and most[0] < counted:
            heapq.heappush(most, counted)
            continue
        found.append(rows[index])
        left -= groups[index]
    return found

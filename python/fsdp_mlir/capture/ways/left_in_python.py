"""What one way through a step leaves in Python, and another one may read.

The capture of a way has seen that it computes the same a second time. Here each way is tried after each
of the others. A plan does not keep what Python holds, except for numbers, which become buffers.
"""

from __future__ import annotations

import itertools
from typing import Any, Iterable

from ...errors import E, ExportError
from ...step.places import at_line
from ..state.state_kept import StateKept
from ..state.trial import Left
from ..state.trials import Trials
from ..state.untaken import silent, untaken
from .ways import Way

# So many pairs of ways are tried.
_MOST_PAIRS = 256


def require_none_read(trials: Trials, ways: Iterable[Way]) -> None:
    """Tries each of `ways` after the others.

    Raises:
        StateKept: one reads numbers or tensors that another one leaves.
        ExportError: or something else.
    """
    ways = list(ways)
    with silent(), untaken():
        lefts = [trials.leaves(way.told) for way in ways]
        before: dict[Any, int] = {}
        for number, left in enumerate(lefts):
            if left.about != frozenset():
                before.setdefault(left.about, number)
        pairs = itertools.product(before.values(), range(len(ways)))
        for tried, (one, other) in enumerate(pairs):
            left = lefts[one]
            if left.about is None or left.about != lefts[other].about:
                if tried == _MOST_PAIRS:
                    raise _refusal(ways[one], ways[other], left)
                _try_behind(trials, ways[one], left, ways[other], lefts[other])


def _try_behind(trials: Trials, one: Way, left: Left, other: Way, first: Left) -> None:
    trial, is_alike = trials.behind(one.told, left, other.told, first)
    if not is_alike:
        tensors = trials.read_in(trial) or left.tensors
        if tensors:
            raise StateKept(tensors)
        raise _refusal(one, other, left)
    decided = (decision.numbers for decision in trial.watch.decisions.values())
    names = trial.computes_with.union(*decided)
    numbers = [number for number in trial.left[0] if number[0].name in names]
    if len(numbers) < len(names):
        raise _refusal(one, other, left)
    if numbers:
        raise StateKept(numbers)


def _refusal(one: Way, other: Way, left: Left) -> ExportError:
    parts = (n for n, told in enumerate(zip(one.told, other.told)) if told[0] != told[1])
    return ExportError(
        E.PYTHON_STATE,
        at_line(
            one.lines[next(parts, -1)],
            f"values decide here what the step leaves in {', '.join(left.names)}, Python state that it "
            "computes with later; no plan keeps that: make it a buffer that is changed in place",
        ),
    )

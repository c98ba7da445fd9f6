"""Of what a step has left in Python, what the next one may compute with: what is to be kept."""

from __future__ import annotations

from typing import Any, Sequence

from ...errors import E, ExportError
from ...step.places import at_line, in_short
from ...step.source import looks_for_truths
from .places import Found
from .python_state import Slots
from .reached import Reached
from .state_kept import StateKept
from .trials import Trials


def what_matters(left: Slots, numbers: Sequence[Found], trials: Trials) -> Slots:
    """Of what a step has left in Python, `numbers` among it, what the next one may compute with."""
    if trials.are_alike():
        return []
    counted = trials.counted()
    if _made(trials.tensors_read):
        return left  # which later steps may look for, whatever they count
    if counted and trials.are_alike(but_for=counted):
        places = {place.identity for place, _, _ in counted}
        return [(place, now) for place, _, now in numbers if place.identity in places]
    return left


def keep_tensors(trials: Trials, alike: Sequence[Found], numbers: Sequence[Found]) -> None:
    """Raises StateKept where the step has left tensors with which a later one computes.

    These are the ones that a later step was seen to read. Where tensors move from place to place, they are
    all those in whose places there were others `alike`."""
    read = trials.tensors_read
    if made := _made(read):
        raise StateKept([*made, *_made(numbers)])
    moves = trials.read_later is not None
    kept = alike or read if moves else read or alike
    kept = kept or trials.tensors_made  # a step may look whether they are there
    if kept:
        raise StateKept(kept)


def keep_numbers(numbers: Sequence[Found], trials: Trials) -> None:
    """Raises StateKept of these, and of the tensors that the first step makes together with some."""
    raise StateKept([*numbers, *(_made(trials.tensors_read) if _made(numbers) else ())])


def check_shared(trials: Trials) -> None:
    """Raises ExportError where a tensor that the step keeps shares memory, of which a buffer has its own."""
    shared = trials.shared_by_kept()
    if shared:
        raise ExportError(
            E.PYTHON_STATE,
            f"the step leaves one tensor in {' and '.join(shared)}, and computes with what it keeps there; "
            "keep a clone() of it in one of them",
        )


def _made(found: Sequence[Found]) -> list[Found]:
    """What a step has made where nothing was."""
    return [one for one in found if one.is_made]


def check_truths(loss: Any, numbers: Sequence[Found]) -> None:
    """Raises ExportError where the code of `loss` asks of a flag among `numbers` whether it `is True`: it
    would find a number there, which is no such object."""
    keys = {found.place.key: found.place for found in numbers if _is_flag(found)}
    for function in Reached(loss).functions if keys else ():
        code = function.__code__
        lines = [line for *_, line in code.co_lines() if line is not None]
        for line, key in looks_for_truths(code.co_filename):
            if key in keys and min(lines) <= line <= max(lines):
                what = (
                    f"the step asks whether {keys[key].name}, a flag that it changes, `is` True or False; a "
                    "plan has a number for it: ask for its truth, as in `if self.flag:`"
                )
                raise ExportError(E.PYTHON_STATE, at_line(in_short(code.co_filename, line), what))


def _is_flag(found: Found) -> bool:
    return isinstance(found.before, bool) or isinstance(found.now, bool)

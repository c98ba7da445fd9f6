"""What a step decides by numbers that it keeps in Python for the next one, now or in later steps.

A plan has the decisions of the export. So each one that such a number makes is tried the other way,
on tensors without values: where the step computes something else then, in this step or the next, the
number is kept. Other uses (`0.5 ** (count // 9)`, an item of a list) are tried with larger numbers.
"""

from __future__ import annotations

import itertools
from typing import Optional, Sequence

from ...errors import E, ExportError
from ...step.places import at_line
from .outcomes import first_other_line, listed_constants
from .places import Found, Place
from .trial import Trial
from .trials import Trials
from .untaken import silent, untaken
from .watched_numbers import Decision, Site, length_of
from .what_matters import check_truths

# So many decisions are tried: in a step that decides more often, each costs a run.
_MOST_TRIALS = 64
# So many powers of two are added to numbers, and so many of those that containers have.
_EXPONENTS = 21
_MOST_LISTED = 32


def numbers_to_keep(trials: Trials) -> Optional[list[Found]]:
    """The numbers that the step keeps in Python, if it computes with one of them, or decides by one
    what it computes, now or later. None where trials cannot tell: they do not come to the end, or the
    step counts in an array.

    Raises:
        ExportError: what the step computes depends on an array's elements, or on a container's length.
    """
    with silent():
        plainly = trials.plainly
        if len(plainly.results) < 2:
            return None
        check_truths(trials.loss, [*plainly.left[0], *plainly.left[1]])
        numbers = trials.counted()
        growing, arrays = trials.growing(), plainly.arrays
        if not numbers and not growing and not arrays:
            return None if trials.has_unwatched() else []
        places = [place for place, _, _ in numbers]
        known = trials.run(places, known=plainly, growing=growing)
        if known.results != plainly.results:
            return None
        lengths = known.computes_with.intersection(map(length_of, growing))
        if lengths:
            given = (outcome.given.get(min(lengths), "") for outcome in known.outcomes)
            raise _refusal(next(filter(None, given), ""), "depends on", lengths)
        with untaken():
            deciding = _deciding(trials, places, growing, known)
        if deciding or known.computes_with:
            counted = {place.identity for place in places}
            return [*numbers, *(n for n in deciding if n[0].identity not in counted)]
        with untaken():
            line = _where_larger_count(trials, [*places, *arrays], known)
        if line is not None:
            if not numbers:
                raise _refusal(line, "depends on", frozenset(place.name for place in arrays))
            return numbers
    return None if trials.has_unwatched() else []


def _deciding(
    trials: Trials, places: Sequence[Place], growing: Sequence[Place], known: Trial
) -> list[Found]:
    """The numbers by which the step decides what it computes. Each decision is turned, alone and together
    with those by which it is reached.

    Raises:
        ExportError: it decides by the length of a container, which cannot become a buffer.
    """
    left: dict[str, Found] = {}
    found: dict[Site, tuple[Decision, frozenset[Site]]] = {}
    deciding: dict[str, Found] = {}

    def find(trial: Trial, turned: frozenset[Site]) -> None:
        for number in itertools.chain(*trial.left):
            left.setdefault(number[0].name, number)
        for site, decision in trial.watch.decisions.items():
            found.setdefault(site, (decision, turned | {site}))

    find(known, frozenset())
    for number in itertools.count():
        if number in (len(found), _MOST_TRIALS):
            return list(deciding.values())
        decision, turned = list(found.values())[number]
        trial = trials.run(places, turned, known, growing=growing)
        if others := trial.other_lengths(known, growing):
            growing = [*growing, *others]
            trial = trials.run(places, turned, known, growing=growing)
        if not trial.computes_as(known):
            if not decision.numbers <= left.keys():
                raise _refusal(decision.line, "decides by", decision.numbers)
            deciding.update((name, left[name]) for name in decision.numbers)
        find(trial, turned)


def _where_larger_count(trials: Trials, places: Sequence[Place], known: Trial) -> Optional[str]:
    """The line that computes something else with numbers that are larger by 1, 2, 4, ..., or with those
    that the step may look for; "" where that is not known. None: nothing does."""
    listed = trials.listed_numbers() | listed_constants(known.outcomes[0])
    looked_for = [number - before for number in sorted(listed)[:_MOST_LISTED] for before in (0, 1)]
    for larger in (*(1 << exponent for exponent in range(_EXPONENTS)), *looked_for):
        trial = trials.run(places, known=known, larger=larger)
        for one, other, ours, theirs in zip(
            trial.results, known.results, trial.outcomes, known.outcomes
        ):
            if one != other:
                return first_other_line(ours, theirs)
    return None


def _refusal(line: str, how: str, names: frozenset[str]) -> ExportError:
    return ExportError(
        E.PYTHON_STATE,
        at_line(
            line,
            f"what the step computes {how} {', '.join(sorted(names))}, which it changes in Python, and the "
            "plan would keep what it is now; count in a number of Python's, or in a buffer that is "
            "changed in place, and decide by that (`if self.count > 9:`), or take such steps in a loop of "
            "your own (docs/own-loop.md)",
        ),
    )

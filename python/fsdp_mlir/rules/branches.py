"""Which way a step goes where Python branches on what is not known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Collection, Mapping, NoReturn

from .values import Comparison, owners_of

_MOST = 64


@dataclass(frozen=True)
class Way:
    """How branches go. Of those on parameters' own tensors: the outcome at each depth, and the
    comparison that each parameter has there."""

    shared: Mapping[Comparison, bool] = field(default_factory=dict)
    own: tuple[tuple[bool, Mapping[int, Comparison]], ...] = ()


class Branches:
    """The branches of one run through a step.

    Attributes:
        decisions: the comparisons of the step's numbers that Python branched on, with their
            outcomes. Some were given; of each new one the outcome is true.
        of_parameters: those of what a parameter's own tensors hold, in order, by parameter. All
            parameters take the first ones as they are given, each by its own comparison.
    """

    def __init__(self, way: Way) -> None:
        self.way = way
        self.decisions: dict[Comparison, bool] = {}
        self.of_parameters: dict[int, dict[Comparison, bool]] = {}

    def decide(self, key: Comparison, fail: Callable[[str], NoReturn]) -> bool:
        """The outcome of a comparison; `fail` is told what cannot be followed."""
        _, a, b = key
        owners = owners_of(a) | owners_of(b)
        if len(owners) > 1:
            fail(
                "branches on a number that follows from several parameters at once, such as a sum "
                "over all of them, and a plan updates each parameter by itself; use an optimizer "
                "that looks at one parameter at a time"
            )
        taken = self.of_parameters.setdefault(*owners, {}) if owners else self.decisions
        if key not in taken:
            if len(taken) == _MOST:
                fail("branches without end on numbers that change between steps")
            taken[key] = self._take(key, owners, len(taken), fail)
        return taken[key]

    def _take(
        self,
        key: Comparison,
        owners: Collection[int],
        index: int,
        fail: Callable[[str], NoReturn],
    ) -> bool:
        if not owners:
            return self.way.shared.get(key, True)
        if index >= len(self.way.own):
            return True
        outcome, conditions = self.way.own[index]
        if any(conditions.get(owner) != key for owner in owners):
            fail("branches on one parameter where it updates another")
        return outcome

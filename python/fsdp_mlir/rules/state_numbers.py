"""What the numbers of an optimizer's state are: options, counts of steps, or what follows from what
they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence

from .kept_state import members_of
from .values import Expr, Pool


@dataclass
class AfterStep:
    """What a parameter is after one step, and its state by name; and what those tensors of the state
    that are one number began with."""

    param: Expr
    states: dict[str, Expr]
    begins: dict[str, Expr]


class StateNumbers:
    """What later steps find of states of one number: a guess, until a step agrees with it.

    Attributes:
        formers: of those that do not count steps, by parameter and name, the first parameter that
            has the same number under this name.
        fixed: those that the first step has left and others leave as they are.

    Args:
        alike: for each parameter those of its group.
    """

    def __init__(self, pool: Pool, alike: Sequence[range]) -> None:
        self.pool, self.alike = pool, alike
        self.formers: dict[tuple[int, str], int] = {}
        self.fixed: set[tuple[int, str]] = set()
        self._begun = False

    def begin(self, states: Sequence[dict[str, Any]]) -> None:
        """Takes Python numbers that the first step has left for options; a count is 1 then."""
        if self._begun:
            return
        self._begun = True
        self.fixed = {
            (index, name)
            for index, state in enumerate(states)
            for name, value in members_of(state).items()
            if type(value) in (int, float) and value != 1
        }

    def found(self, index: int, name: str) -> Expr:
        """The value that a step finds in a number that is not fixed."""
        if (index, name) in self.formers:
            return self.pool.make("former", self.formers[index, name], name)
        return self.pool.make("step", -1)

    def agree(self, first: Sequence[AfterStep], outcomes: Sequence[AfterStep]) -> bool:
        """Whether a step that found these leaves them so. If not, they are others now."""
        formers = dict(self.formers)
        changed = {
            (index, name)
            for index, name in self.fixed
            if outcomes[index].states.get(name) is not first[index].states[name]
        }
        for index, outcome in enumerate(outcomes):
            for name, value in outcome.states.items():
                if (index, name) in self.fixed:
                    continue
                owner = self._owner(formers, first, outcomes, index, name)
                if owner is not None:
                    formers[index, name] = owner
        agrees = formers == self.formers and not changed
        self.fixed -= changed
        self.formers = formers
        return agrees

    def _owner(
        self,
        formers: dict[tuple[int, str], int],
        first: Sequence[AfterStep],
        outcomes: Sequence[AfterStep],
        index: int,
        name: str,
    ) -> Optional[int]:
        """Whose number a state is that does not count steps."""
        value, owner = outcomes[index].states[name], formers.get((index, name))
        if owner is not None:
            return owner if outcomes[owner].states[name] is value else index
        if value.is_number and value is not self.pool.make("step", 0):
            return self._first_like(first, index, name)
        return None

    def _first_like(self, first: Sequence[AfterStep], index: int, name: str) -> int:
        """The first parameter of the group whose state `name` begins as this one's does."""
        own = first[index]
        for other in self.alike[index]:
            values = first[other].states.get(name), first[other].begins.get(name)
            if values == (own.states[name], own.begins.get(name)):
                return other
        return index

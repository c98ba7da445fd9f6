"""What is seen of steps that were tried on tensors without values (`trials`)."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Sequence

import torch

from .outcomes import Outcome
from .places import Found, Place, wholes_of
from .watched_numbers import Watch


@dataclasses.dataclass
class Trial:
    """Steps that were tried, one after the other.

    Attributes:
        watch: what was seen of watched numbers.
        results: what each step has computed, as digests; fewer than asked for where one raised.
        outcomes: of each step.
        computes_with: the watched numbers in what was computed.
        left: of each step, the numbers that it has changed.
        lengths: of each step, the containers that have other lengths behind it, and these.
        tensors: of each step, those that it has left in places and among members.
        sequences: of each step, the containers and tuples that hold something else, and how many.
        arrays: those that the steps have changed.
        unwatched: of each step, what of it nobody can watch, by where it is.
        written: of the step that raised, what its states held then.
        replaced: what the last step has left in the places of states that cannot hold it.
        mode: that of the tensors without values, the same in all steps.
        shared: names of kept tensors, and of states, that a step leaves in one memory.
        would_last: whether it ended where a step would have reached files or other processes.
    """

    watch: Watch
    mode: Any
    results: list[Any] = dataclasses.field(default_factory=list)
    outcomes: list[Outcome] = dataclasses.field(default_factory=list)
    computes_with: frozenset[str] = frozenset()
    left: list[list[Found]] = dataclasses.field(default_factory=list)
    lengths: list[list[tuple[Place, int]]] = dataclasses.field(default_factory=list)
    tensors: list[list[Found]] = dataclasses.field(default_factory=list)
    sequences: list[dict[str, int]] = dataclasses.field(default_factory=list)
    arrays: list[Place] = dataclasses.field(default_factory=list)
    unwatched: list[dict[Any, Any]] = dataclasses.field(default_factory=list)
    written: frozenset[int] = frozenset()
    replaced: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    shared: list[str] = dataclasses.field(default_factory=list)
    would_last: bool = False

    def values(self, step: int) -> dict[Any, Any]:
        """The numbers that a step has left, by identity of their places."""
        return {place.identity: now for place, _, now in self.left[step]}

    def tensors_read(self, left: Sequence[Found]) -> list[Found]:
        """Of tensors that the first step has left, those that later ones compute with; with one of a tuple
        or list, all of that."""
        later = self.outcomes[1:]
        read = (one for one in left if any(outcome.has_found(one.now) for outcome in later))
        wholes = wholes_of(read)
        return [one for one in left if one.place.whole.identity in wholes]

    def moves_tensors(self) -> bool:
        """Whether the second step leaves what the first one does in other places, as a queue does."""
        left, behind = (
            {(id(now), place.identity) for place, _, now in tensors} for tensors in self.tensors[:2]
        )
        known = {tensor for tensor, _ in left}
        return any(tensor in known for tensor, _ in behind - left)

    def queue_length(self) -> int:
        """The members of the longest sequence through which something may move: the second step changes
        it, and not its length."""
        first, second = self.sequences[:2]
        lengths = [length for name, length in second.items() if first.get(name) == length]
        if self.moves_tensors():
            lengths += [len(place.whole.table) for place, _, _ in self.tensors[1]]
        return max(lengths, default=0)

    def other_lengths(self, known: Trial, growing: Sequence[Place]) -> list[Place]:
        """The containers whose lengths are others than in `known`, but for those that are `growing`."""
        found = {place.identity for place in growing}
        others: dict[Any, Place] = {}
        for ours, theirs in zip(self.lengths, known.lengths):
            one, other = ({p.identity: length for p, length in both} for both in (ours, theirs))
            for place, _ in (*ours, *theirs):
                if one.get(place.identity) != other.get(place.identity):
                    others[place.identity] = place
        return [place for known, place in others.items() if known not in found]

    def computes_as(self, known: Trial) -> bool:
        """Whether each step computes what it does in `known`, as far as it comes in computing."""
        came = len(self.results)
        if self.would_last or self.results != known.results[:came]:
            return False
        return came == len(known.results) or self.written <= known.outcomes[came].held


@dataclasses.dataclass
class Left:
    """What a step leaves in Python.

    Attributes:
        trial: the step.
        about: where, and what, equal for two that the next step cannot tell apart; None: the step does
            not come to its end.
        names: of all of it.
        tensors: those in whose places there were others like them.
        growing: the containers that have other lengths.
    """

    trial: Trial
    about: Optional[frozenset[Any]] = None
    names: Sequence[str] = ()
    tensors: Sequence[Found] = ()
    growing: Sequence[Place] = ()

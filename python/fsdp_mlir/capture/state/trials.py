"""Steps that are tried on tensors without values, each time from what Python has now."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

import torch
from torch._dispatch.python import enable_python_dispatcher

from ...step.names import StateNames
from ..graph.known_values import StandIns
from ..values.decisions import Answers, answering, answering_alike, asked
from ..values.python_floats import read_value
from ..values.value_checks import passed_checks
from .outcomes import Outcome, Reads, first_other_line
from .python_state import PythonState, numbers_in
from .places import MISSING, Found, Place, is_nothing
from .replay import NoOperators, OtherCall, Recording, Replay
from .shared_memory import names_sharing
from .trial import Left, Trial
from .untaken import WouldLast, silent, untaken
from .watched_numbers import Site, Watch, plain, watched, watching
from .without_values import called_with, having, without_values

# So many ways through two steps are recorded.
_MOST_RECORDED = 8
# So many steps are compared where tensors move from place to place.
_MOST_MOVES = 40
# What steps that are compared read from tensors, and what a step before them does that may leave it.
_READ = Reads(0.5)
_READ_BEFORE = (Reads(4.5, apart=0.75), Reads(-3.5, apart=-0.75))


class Trials:
    """Runs the steps of a loss. Where Python makes the calls of an earlier trial again, what these
    give is not computed again.

    Attributes:
        loss: the module that is captured.
        leave_something: whether a step was seen to leave something in Python.
        tensors_read: what a step leaves that later ones were seen to compute with.
        tensors_made: what it leaves where nothing like it was, and what a buffer may hold.
        read_later: the line at which a later step was seen to compute something else; None: none was.

    Args:
        whole_numbers: whether those that are read from tensors have symbols, as sizes have.
    """

    def __init__(
        self,
        loss: torch.nn.Module,
        inputs: Mapping[str, torch.Tensor],
        names: StateNames,
        whole_numbers: bool = False,
    ) -> None:
        self.leave_something = False
        self.read_later: Optional[str] = None
        self.tensors_read, self.tensors_made = list[Found](), list[Found]()
        self._whole_numbers = whole_numbers
        self.loss, self._inputs = loss, inputs
        states = (*loss.named_parameters(), *loss.named_buffers())
        self._states = frozenset(name for name, _ in states)
        self._settled = list(names.settled_buffers)
        self._kept = dict(names.kept)
        places = [kept.place for kept in self._kept.values()]
        self._kept_places = {p.identity for place in places for p in (place, place.whole)}
        self._trained = frozenset(name for name, tensor in states if names.is_trained(tensor))
        self._state = PythonState(loss)
        self._recorded: list[list[Recording]] = []

    def run(
        self,
        places: Sequence[Place] = (),
        turned: frozenset[Site] = frozenset(),
        known: Optional[Trial] = None,
        larger: Any = 0,
        growing: Sequence[Place] = (),
    ) -> Trial:
        """Two steps in which the numbers at `places`, and the lengths of what is `growing`, are
        watched.

        Args:
            turned: the sites of decisions that fall the other way.
            known: another trial; where a step leaves other numbers than it, they are watched too.
            larger: what is added to the numbers in front of the first step.
        """
        numbers = places, known, larger
        for recorded in self._recorded:
            trial, again = self._begun(Watch(turned, growing)), iter(recorded)
            if self._take(trial, lambda step: self._replay(trial, next(again)), *numbers):
                return trial
        trial, new = self._begun(Watch(turned, growing)), []

        def compute(step: int) -> None:
            new.append(self._compute(trial, Reads(step + 0.5)))

        if self._take(trial, compute, *numbers):
            self._keep(new)
        return trial

    def _begun(self, watch: Watch) -> Trial:
        return Trial(watch, StandIns(sizes_by_values=True, settled=self._settled))

    @functools.cached_property
    def plainly(self) -> Trial:
        """Both steps as they are, but that each reads another number from tensors."""
        with silent():
            return self.run()

    def counted(self) -> list[Found]:
        """The numbers that go on changing. What is the same after the second step is settled, as the
        size of a cache."""
        if len(self.plainly.results) < 2:
            return []
        first = self.plainly.values(0)
        left = self.plainly.left[1]
        return [number for number in left if first.get(number[0].identity) != number[2]]

    def growing(self) -> list[Place]:
        """The containers whose lengths go on changing."""
        if len(self.plainly.results) < 2:
            return []
        first = {place.identity: length for place, length in self.plainly.lengths[0]}
        return [p for p, length in self.plainly.lengths[1] if first.get(p.identity) != length]

    def has_unwatched(self) -> bool:
        """Whether something goes on changing of which nothing tells who decides by it."""
        if len(self.plainly.results) < 2:
            return True
        first, second = self.plainly.unwatched
        return bool(self.plainly.arrays) or first != second

    def are_alike(self, but_for: Sequence[Found] = ()) -> bool:
        """Whether the second step computes what the first one does, from what that leaves in Python;
        of the numbers `but_for` it finds what the first one did."""
        pair = self._pair(_READ, but_for)
        if pair is None:
            return False
        trial, recorded = pair
        first, second = trial.outcomes
        self._note_read(trial)
        if trial.results[0] != trial.results[1] or first.read != second.read:
            return False
        length = trial.queue_length()
        if length and not self._stay_alike(length, but_for):
            return False
        if not (first.reads_numbers or second.reads_numbers):
            self._keep(recorded)  # `plainly` makes the same calls
            return True
        # A mean, or the smallest, of numbers that are the same is the same.
        others = (self._pair(read, but_for) for read in _READ_BEFORE)
        return all(other is None or other[0].results[1] == trial.results[1] for other in others)

    def _pair(
        self, first: Reads, but_for: Sequence[Found]
    ) -> Optional[tuple[Trial, list[Recording]]]:
        """Two steps as `are_alike` compares them, the first of which reads other numbers, and the calls of
        each; None where they do not come to their ends."""
        trial, recorded = self._begun(Watch()), []

        def compute(step: int) -> None:
            if step == 1:
                self.leave_something |= bool(self._state.changed())
                self._find_as_first(trial, but_for)
            recorded.append(self._compute(trial, _READ if step else first))

        with silent():
            return (trial, recorded) if self._take(trial, compute) else None

    def _find_as_first(self, trial: Trial, but_for: Sequence[Found]) -> None:
        """Gives the next step of the numbers `but_for` what the first one found."""
        places = {place.identity for place, _, _ in but_for}
        for place, before, _ in trial.left[0]:
            if place.identity in places:
                place.put(before, is_set=before is not MISSING)

    def _stay_alike(self, length: int, but_for: Sequence[Found]) -> bool:
        """Whether steps after a pair that is alike compute the same, until what the first one leaves has
        moved through a queue of that length."""
        trial = self._begun(Watch())
        counted = [*but_for, *self.counted()]

        def compute(step: int) -> None:
            if step:
                self._find_as_first(trial, counted)
            self._compute(trial, _READ)

        with silent():
            self._take(trial, compute, steps=min(2 + length, _MOST_MOVES))
        self._note_read(trial)
        for outcome, result in zip(trial.outcomes, trial.results):
            if result != trial.results[0]:
                self.read_later = first_other_line(outcome, trial.outcomes[0])
                return False
        return True

    def _note_read(self, trial: Trial) -> None:
        known = {left.place.identity for left in self.tensors_read}
        read = self.read_in(trial)
        self.tensors_read += [one for one in read if one.place.identity not in known]
        made = (one for one in self._not_kept(trial.tensors[0]) if one.is_made)
        self.tensors_made = [one for one in made if not one.now.requires_grad]

    def read_in(self, trial: Trial) -> list[Found]:
        """Of the tensors that the first step of `trial` leaves and that are not kept yet, those with which
        later ones compute."""
        return trial.tensors_read(self._not_kept(trial.tensors[0])) if trial.tensors else []

    def _not_kept(self, found: Iterable[Found]) -> list[Found]:
        return [one for one in found if one.place.identity not in self._kept_places]

    def leaves(self, told: Sequence[bool]) -> Left:
        """What a step that is told these answers leaves in Python."""
        trial = self._begun(Watch())
        left = Left(trial)
        names = {kept.place.name for kept in self._kept.values()}

        def compute(step: int) -> None:
            self._compute_told(trial, told)
            left_as = trial.outcomes[0].left_as
            left.about = frozenset(
                (slot.identity, left_as(value))
                for slot, value in self._state.left()
                if slot.identity not in self._kept_places
            )
            left.names = [name for name in self._state.changed() if name not in names]
            left.tensors = self._not_kept(self._state.tensors())
            left.growing = [place for place, _ in self._state.lengths()]

        self._take(trial, compute, steps=1)
        return left

    def behind(
        self, before: Sequence[bool], left: Left, told: Sequence[bool], first: Left
    ) -> tuple[Trial, bool]:
        """A step that is told `told` after one that was told `before`, which leaves `left`; the numbers
        that it leaves are watched. And whether the step computes what `first` does, the same step where
        it comes first, but for these numbers."""
        trial = self._begun(Watch(growing=left.growing))
        if first.about is None:
            return trial, False

        def compute(step: int) -> None:
            self._compute_told(trial, told if step else before)

        ended = self._take(trial, compute, known=first.trial)
        alike = ended and (trial.computes_with or trial.results[1] == first.trial.results[0])
        return trial, bool(alike or trial.watch.decisions)

    def shared_by_kept(self) -> list[str]:
        """The names of two tensors that a step leaves in one memory, at least one of which is kept."""
        trial = self._begun(Watch())
        with silent(), untaken():
            self._take(trial, lambda _: self._compute(trial, _READ) and None, steps=1)
        return trial.shared

    def _compute_told(self, trial: Trial, told: Sequence[bool]) -> None:
        answers = Answers(told, {})
        with answering(answers):
            self._compute(trial, _READ)
        if answers.told != tuple(told):
            raise OtherCall

    def _keep(self, recorded: list[Recording]) -> None:
        is_whole = not self._kept and all(recording.is_whole for recording in recorded)
        if is_whole and len(self._recorded) < _MOST_RECORDED:
            self._recorded.append(recorded)

    def listed_numbers(self) -> set[int]:
        """The numbers of Python's containers among which a step may look for one."""
        return self._state.listed_numbers()

    def _take(
        self,
        trial: Trial,
        take: Callable[[int], None],
        places: Sequence[Place] = (),
        known: Optional[Trial] = None,
        larger: Any = 0,
        steps: int = 2,
    ) -> bool:
        """Takes the steps; whether they have come to their ends."""
        made: set[Any] = set()
        try:
            for step in range(steps):
                for place in (*places, *(self._others(trial, known) if step else ())):
                    value = plain(place.read())
                    if is_nothing(value):  # until the first step has made it
                        made.add(place.identity)
                        continue
                    value += larger if not step or place.identity in made else 0
                    place.put(watched(value, frozenset({place.name})))
                with answering_alike():
                    take(step)
                self._state.settle_numbers(step)
                looked = self._state.look()
                numbers = self._not_kept(numbers_in(looked))
                trial.left.append([one._replace(now=plain(one.now)) for one in numbers])
                trial.lengths.append(self._state.lengths())
                trial.arrays = self._state.arrays()
                trial.tensors.append(self._state.tensors_in(looked))
                trial.sequences.append(self._state.sequences_in(looked))
                if known is None:  # of others nobody asks for it
                    trial.unwatched.append(self._state.unwatched())
            return True
        except WouldLast:
            trial.would_last = True
            return False
        except (Exception, SystemExit, OtherCall):
            return False  # of other values, which may be wrong in this code
        finally:
            self._state.restore()

    def _others(self, trial: Trial, known: Optional[Trial]) -> list[Place]:
        before = known.values(0) if known is not None else trial.values(0)
        return [p for p, _, now in trial.left[0] if before.get(p.identity) != now]

    def _compute(self, trial: Trial, reads: Reads) -> Recording:
        """Takes a step, in which such numbers are read from tensors."""
        mode, states, batch = without_values(self.loss, self._inputs, trial.mode)
        trial.mode, batch = mode, tuple(map(_another, batch))
        states = {name: states[name] for name in states if name in self._states}
        found = dict(states)
        states.update(trial.replaced)
        before = trial.outcomes[-1] if trial.outcomes else None
        kept = {name: mode.from_tensor(one.tensor) for name, one in self._kept.items()}
        known = {**states, **kept}, self._trained, batch
        outcome = Outcome(*known, trial.watch, reads, before, trial.replaced)
        recording = Recording(mode, states, batch, outcome)
        trial.outcomes.append(outcome)
        with mode, enable_python_dispatcher(), passed_checks(self._whole_numbers), outcome:
            try:
                for name, one in self._kept.items():
                    one.give(kept[name])
                with having(self.loss, states):
                    with recording, watching(trial.watch):
                        value, metrics = self.loss(*batch)
                    with watching(trial.watch):
                        gradients = _gradients(value, states)
            except BaseException:
                trial.written = outcome.contents(states.values())
                raise
        others = (name for name, tensor in states.items() if not _may_hold(found[name], tensor))
        trial.replaced = {name: states[name] for name in others}
        values = {name: read_value(one.place.read()) for name, one in self._kept.items()}
        conditions = [question.condition for question in asked()]
        tensors = [value, *metrics.values(), *states.values(), *gradients, *values.values()]
        tensors += conditions
        tensors = [tensor for tensor in tensors if isinstance(tensor, torch.Tensor)]
        trainable = tuple(name for name, tensor in states.items() if tensor.requires_grad)
        result = outcome.digests(tensors), trainable
        left = {name: n for name, n in values.items() if isinstance(n, torch.Tensor)}
        outcome.find(left.values())
        held = {o.place.name: left[n] for n, o in self._kept.items() if o.is_tensor and n in left}
        trial.shared = names_sharing(outcome, held, states)
        outcome.end({**states, **kept, **left})
        recording.end(value, metrics, result)
        trial.results.append(result)
        trial.computes_with |= outcome.numbers(tensors)
        return recording

    def _replay(self, trial: Trial, recording: Recording) -> None:
        replay = Replay(recording, trial.watch)
        with (
            recording.mode,
            enable_python_dispatcher(),
            passed_checks(self._whole_numbers),
            NoOperators(replay),
            replay,
            watching(trial.watch),
        ):
            value, metrics = called_with(self.loss, dict(recording.states), recording.batch)
        replay.end(value, metrics)
        trial.outcomes.append(recording.outcome)
        trial.results.append(recording.result)


def _may_hold(state: torch.Tensor, value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return True  # which the capture refuses
    about = (value.shape, value.dtype, value.requires_grad and value.grad_fn is not None)
    return about == (state.shape, state.dtype, False) or value is state


def _another(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without values like an input, in other memory: each step has a batch of its own."""
    about = {"dtype": tensor.dtype, "device": tensor.device}
    with tensor.fake_mode:
        another = torch.empty_strided(tensor.shape, tensor.stride(), **about)
    return another.requires_grad_(tensor.requires_grad)


def _gradients(loss: Any, states: Mapping[str, torch.Tensor]) -> tuple[Any, ...]:
    trainable = [tensor for tensor in states.values() if tensor.requires_grad]
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad or not trainable:
        return ()
    with contextlib.suppress(Exception):  # of operators that want values
        return torch.autograd.grad(loss, trainable, allow_unused=True)
    return ()

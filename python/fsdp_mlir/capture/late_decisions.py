"""What a step decides by numbers that it keeps in Python for the next one, now or in later steps.

A plan has the decisions of the export. So each one that such a number makes is tried the other way,
on tensors without values: the step may not compute anything else then, in this step or the next.
Other uses (an item of a list, a loop's length) are tried with larger numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import Any, Mapping, Optional, Sequence

import torch
from torch._dispatch.python import enable_python_dispatcher

from ..errors import E, ExportError
from .explain import called_with, without_values
from .outcomes import Outcome, first_other_line, listed_constants
from .python_state import PythonState
from .reached import Place
from .untaken import silent, untaken
from .value_checks import passed_checks
from .watched_numbers import Decision, Site, Watch, plain, watched, watching

# So many decisions are tried: in a step that decides more often, each costs a run.
_MOST_TRIALS = 64
# So many powers of two are added to numbers, and so many of those that containers have.
_EXPONENTS = 21
_MOST_LISTED = 32

Number = tuple[Place, Any, Any]


@dataclasses.dataclass
class _Trial:
    """Steps that were tried, one after the other.

    Attributes:
        watch: what was seen of watched numbers.
        results: what each step has computed, as digests; fewer than asked for where one raised.
        outcomes: of each step.
        computes_with: the watched numbers in what was computed.
        left: of each step, the numbers that it has changed.
        written: of the step that raised, what its states held then.
    """

    watch: Watch
    results: list[Any] = dataclasses.field(default_factory=list)
    outcomes: list[Outcome] = dataclasses.field(default_factory=list)
    computes_with: frozenset[str] = frozenset()
    left: list[list[Number]] = dataclasses.field(default_factory=list)
    written: frozenset[int] = frozenset()

    def values(self, step: int) -> dict[Any, Any]:
        """The numbers that a step has left, by identity of their places."""
        return {place.identity: now for place, _, now in self.left[step]}

    def computes_as(self, known: _Trial) -> bool:
        """Whether each step computes what it does in `known`, as far as it comes."""
        came = len(self.results)
        if self.results != known.results[:came]:
            return False
        return came == len(known.results) or self.written <= known.outcomes[came].held


class _Trials:
    """Runs the steps of a loss on tensors without values, each time from what Python has now."""

    def __init__(self, loss: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> None:
        self._loss, self._inputs = loss, inputs
        self._state = PythonState(loss)

    def run(
        self,
        places: Sequence[Place] = (),
        turned: frozenset[Site] = frozenset(),
        known: Optional[_Trial] = None,
        larger: Any = 0,
    ) -> _Trial:
        """Two steps in which the numbers at `places` are watched.

        Args:
            turned: the sites of decisions that fall the other way.
            known: another trial; where a step leaves other numbers than it, they are watched too.
            larger: what is added to the numbers in front of the first step.
        """
        trial = _Trial(Watch(turned))
        try:
            for step in (0, 1):
                for place in (*places, *(self._others(trial, known) if step else ())):
                    value = plain(place.read()) + (0 if step else larger)
                    place.put(watched(value, frozenset({place.name})))
                self._run_step(trial, step)
        except (Exception, SystemExit):
            pass  # of other values, which may be wrong in this code
        finally:
            self._state.restore()
        return trial

    def listed_numbers(self) -> set[int]:
        """The numbers of Python's containers among which a step may look for one."""
        return self._state.listed_numbers()

    def _others(self, trial: _Trial, known: Optional[_Trial]) -> list[Place]:
        before = known.values(0) if known is not None else trial.values(0)
        return [p for p, _, now in trial.left[0] if before.get(p.identity) != now]

    def _run_step(self, trial: _Trial, step: int) -> None:
        mode, states, batch = without_values(self._loss, self._inputs)
        named = {**states, **{f"input {n}": t for n, t in enumerate(batch)}}
        outcome = Outcome(named, trial.watch, step + 0.5)
        trial.outcomes.append(outcome)
        with (
            mode,
            enable_python_dispatcher(),
            passed_checks(),
            watching(trial.watch),
            outcome,
        ):
            try:
                value, metrics = called_with(self._loss, states, batch)
            except BaseException:
                trial.written = outcome.contents(states.values())
                raise
            gradients = _gradients(value, states)
        tensors = [value, *metrics.values(), *states.values(), *gradients]
        tensors = [tensor for tensor in tensors if isinstance(tensor, torch.Tensor)]
        trainable = tuple(name for name, tensor in states.items() if tensor.requires_grad)
        trial.results.append((outcome.digests(tensors), trainable))
        trial.computes_with |= outcome.numbers(tensors)
        numbers = [*self._state.numbers(), *self._state.members()]
        trial.left.append([(place, before, plain(now)) for place, before, now in numbers])


def _gradients(loss: Any, states: Mapping[str, torch.Tensor]) -> tuple[Any, ...]:
    trainable = [tensor for tensor in states.values() if tensor.requires_grad]
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad or not trainable:
        return ()
    with contextlib.suppress(Exception):  # of operators that want values
        return torch.autograd.grad(loss, trainable, allow_unused=True)
    return ()


def numbers_to_keep(loss: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> list[Number]:
    """The numbers that the step keeps in Python, where it computes with one of them.

    Raises:
        ExportError: what the step computes depends on what it decides by one, now or later.
    """
    with silent():
        trials = _Trials(loss, inputs)
        plainly = trials.run()
        if len(plainly.results) < 2:
            return []
        # What is the same after the second step is settled, as the size of a cache.
        first = plainly.values(0)
        numbers = [n for n in plainly.left[1] if first.get(n[0].identity) != n[2]]
        if not numbers:
            return []
        places = [place for place, _, _ in numbers]
        known = trials.run(places, known=plainly)
        if known.results != plainly.results:
            return []
        with untaken():
            _refuse_decisions(trials, places, known)
        if known.computes_with:
            return numbers
        with untaken():
            _refuse_larger(trials, places, known)
    return []


def _refuse_decisions(trials: _Trials, places: Sequence[Place], known: _Trial) -> None:
    """Turns each decision, alone and with what it is reached by."""
    found: dict[Site, tuple[Decision, frozenset[Site]]] = {}

    def find(trial: _Trial, turned: frozenset[Site]) -> None:
        for site, decision in trial.watch.decisions.items():
            found.setdefault(site, (decision, turned | {site}))

    find(known, frozenset())
    for number in itertools.count():
        if number in (len(found), _MOST_TRIALS):
            return
        decision, turned = list(found.values())[number]
        trial = trials.run(places, turned, known)
        if not trial.computes_as(known):
            raise _refusal(decision.line, "decides by", decision.numbers)
        find(trial, turned)


def _refuse_larger(trials: _Trials, places: Sequence[Place], known: _Trial) -> None:
    """Tries numbers that are larger by 1, 2, 4, ..., and those that the step may look for."""
    listed = trials.listed_numbers() | listed_constants(known.outcomes[0])
    looked_for = [number - before for number in sorted(listed)[:_MOST_LISTED] for before in (0, 1)]
    for larger in (*(1 << exponent for exponent in range(_EXPONENTS)), *looked_for):
        trial = trials.run(places, known=known, larger=larger)
        for one, other, ours, theirs in zip(
            trial.results, known.results, trial.outcomes, known.outcomes
        ):
            if one != other:
                names = frozenset(place.name for place in places)
                raise _refusal(first_other_line(ours, theirs), "depends on", names)


def _refusal(line: str, how: str, names: frozenset[str]) -> ExportError:
    return ExportError(
        E.PYTHON_STATE,
        f"{line + ': ' if line else ''}what the step computes {how} {', '.join(sorted(names))}, a "
        "number of Python's that it changes, and the plan would keep what it is now; make the number "
        "a buffer that is changed in place, and choose by torch.where, or take such steps in a loop "
        "of your own (docs/own-loop.md)",
    )

"""The ways through a step that decides by values: what each gives, traced with the answers it is told."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import traceback
from typing import Callable, Iterator, Optional, Sequence

import torch
from torch._functorch._aot_autograd.descriptors import (
    GradAOTOutput,
    InputMutationAOTOutput,
    PlainAOTOutput,
)

from ...dtypes import short_name
from ...errors import E, ExportError
from ...step.places import at_line, is_users, said_location
from ...step.source import raises_at
from ..graph.joint_graph import HasGradient, JointGraph
from ..running import RunStep
from ..state.begun import Made
from ..state.untaken import untaken
from ..state.without_values import about_values
from ..step_loss import ResultRefused, check_outputs
from ..values.decisions import Answers, Usual, ValuesDecide, answering, asked, is_answering
from .shared_values import Results, SharedValues, Value

# So many ways through a step are traced, or through a place of it that stands apart: each takes the
# time of a capture.
MOST_WAYS = 16
# Of torch.stack and torch.cat; and of operators whose operands have none and some.
_OF_NONE = re.compile(
    r"expects (a non-empty|at least one)|\(0\) (to|must) match|(to|must) match [\w ]+\(0\)"
)
# What code raises about the kind of an object.
_OF_KINDS = (TypeError, AttributeError, NotImplementedError)
_NO_GRADIENT = (
    "the loss has no gradient, of which backward() ends in an error; give one that has, as "
    "`h.sum() * 0.0`"
)


class WithoutLoss(Exception):
    """On a way through the step it gives no loss, for which eager mode has an error.

    Attributes:
        error: what a step that always goes this way is refused with.
    """

    def __init__(self, error: ExportError) -> None:
        super().__init__(str(error))
        self.error = error


@contextlib.contextmanager
def without_loss(step: RunStep) -> Iterator[None]:
    """Within it a way through `step` is traced; raises WithoutLoss where it has no loss."""
    failure: Optional[Exception] = None
    try:
        yield
    except Exception as error:
        failure = about_values(error)
    if is_answering() and failure is not None and _fails_in_eager(failure, step):
        place = said_location("".join(traceback.format_exception(failure)))
        what = f"the step's code fails ({type(failure).__name__}: {failure})"
        raise WithoutLoss(ExportError(E.VALUE_DEPENDENT, at_line(place, what))) from failure
    loss = step.outputs[0]
    # Of a tensor of one element eager mode takes gradients, whatever its shape.
    is_one = isinstance(loss, torch.Tensor) and [str(size) for size in loss.shape] == ["1"]
    if is_answering() and loss is not None and not is_one:
        try:
            check_outputs(loss, {}, None)
        except ExportError as error:
            raise WithoutLoss(error) from failure
    if failure is not None:
        raise failure
    if is_answering() and torch.is_grad_enabled() and not loss.requires_grad:
        raise WithoutLoss(ResultRefused("loss", _NO_GRADIENT, E.NO_GRADIENT))


def _fails_in_eager(failure: Exception, step: RunStep) -> bool:
    """Whether it is Python's or PyTorch's error about having none of something, or a name for nothing,
    or one that the code raises itself: eager mode has these on this way through the step too."""
    is_of_none = _OF_NONE.search(str(failure)) is not None
    of_python = (ZeroDivisionError, IndexError, UnboundLocalError)
    is_known = is_of_none or isinstance(failure, of_python)
    return is_known or _is_raised_by_code(failure) or _is_of_unmade(failure, step)


def _is_raised_by_code(failure: Exception) -> bool:
    """Whether the user's code raises it behind a decision by values, as a factorization does that has
    tried all that it can. An error about a kind of object may be about what stands in for a number
    while a step is captured."""
    if not asked() or isinstance(failure, _OF_KINDS):
        return False
    frame, line = list(traceback.walk_tb(failure.__traceback__))[-1]
    path = frame.f_code.co_filename
    return is_users(path) and raises_at(path, line)


def _is_of_unmade(failure: Exception, step: RunStep) -> bool:
    """Whether it is the error of code that uses what `step` has yet to make."""
    unmade = [one.place for one in step.kept if isinstance(one, Made) and not one.is_made]
    if not unmade or not isinstance(failure, (AttributeError, KeyError, TypeError)):
        return False
    text = str(failure)
    return "NoneType" in text or any(repr(place.key) in text for place in unmade)


@dataclasses.dataclass
class Way:
    """What a way through the step gives; no results where it ends in an error.

    Attributes:
        told: what it was told, each time that it asked.
        lines: where it asked, as `file.py:31`.
        conditions: what it has asked for; none where it ends in an error.
        leaves_state: whether it leaves something in Python.
        places: where it computes each value: a number of calls.
    """

    told: tuple[bool, ...]
    lines: tuple[str, ...]
    results: Optional[Results]
    conditions: list[Value]
    places: dict[Value, int]
    error: Optional[ExportError] = None
    leaves_state: bool = False


class Ways:
    """The ways through a step, each of which `trace` gives, told what is asked.

    `trace` raises WithoutLoss where a way gives no loss.

    Attributes:
        values: those of all ways.
        first: the graph of the first way with a loss.
        saving: lines that would have saved something.
        with_loss: those that give one, by what they are told.
        usual: what a step is told behind the answers that it is given (`decisions.Usual`).
    """

    def __init__(self, trace: Callable[[], JointGraph]) -> None:
        self.values = SharedValues()
        self.first: Optional[JointGraph] = None
        self.saving: dict[str, None] = {}
        self.with_loss: dict[tuple[bool, ...], Way] = {}
        self.usual: Usual = {}
        self._trace = trace

    def way(self, given: Sequence[bool]) -> Way:
        """The one with these answers first, and the usual ones behind them.

        Raises:
            ExportError: it has other metrics than the ways before.
        """
        answers = Answers(given, self.usual)
        try:
            with answering(answers), untaken() as saving:
                traced = self._trace()
        except WithoutLoss as end:
            return Way(answers.told, answers.lines, None, [], {}, end.error)
        self.first = self.first or traced
        if traced.metrics != self.first.metrics:
            raise ValuesDecide(
                E.VALUE_DEPENDENT,
                f"{answers.lines[-1]}: values decide which metrics the step gives; give all of "
                "them, and choose their values by torch.where",
            )
        results, places = self.values.add(traced.module)
        first = 1 + len(traced.metrics)
        asked = (PlainAOTOutput(first + number) for number in range(len(answers.asked)))
        conditions = [results.pop(descriptor) for descriptor in asked]
        self.saving |= saving
        leaves_state = answers.leaves_state
        way = Way(answers.told, answers.lines, results, conditions, places, None, leaves_state)
        self.with_loss[way.told] = way
        return way


def complete(values: SharedValues, *ways: Results) -> None:
    """Gives each way all results but whether it has a gradient: a buffer that it does not change is
    what it was, and of what it does not reach there is no gradient."""
    for descriptor in dict.fromkeys(itertools.chain(*ways)):
        for results in ways:
            if descriptor not in results and not isinstance(descriptor, HasGradient):
                unchanged = None
                if isinstance(descriptor, InputMutationAOTOutput):
                    unchanged = values.input(descriptor.mutated_input)
                results[descriptor] = unchanged


def say_which_have(values: SharedValues, yes: Results, no: Results) -> None:
    """Adds to two complete ways whether each has a gradient, where values decide that."""
    for descriptor in [key for key in yes if isinstance(key, GradAOTOutput)]:
        said = HasGradient(descriptor.grad_of)
        gradients = yes[descriptor], no[descriptor]
        if said not in yes and said not in no and (None not in gradients or not any(gradients)):
            continue
        at = next(gradient for gradient in gradients if gradient is not None)
        for results, gradient in zip((yes, no), gradients):
            if said not in results:
                results[said] = values.truth(at, gradient is not None)


def require_alike(line: str, yes: Results, no: Results) -> None:
    """Raises ExportError where two ways give results of other shapes or dtypes."""
    for descriptor, one in yes.items():
        other = no[descriptor]
        if one is None or other is None:
            continue
        about = [(tuple(v.meta["val"].shape), v.meta["val"].dtype) for v in (one, other)]
        if about[0] != about[1]:
            said = " and ".join(
                f"{short_name(dtype)} of shape {list(shape)}" for shape, dtype in about
            )
            raise ValuesDecide(
                E.VALUE_DEPENDENT,
                f"{line}: values decide whether the step gives {said}; give the same on both ways",
            )

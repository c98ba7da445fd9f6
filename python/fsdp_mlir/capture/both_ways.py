"""A step that decides by values: it is traced for each answer, and a plan computes all and chooses."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import warnings
from typing import Callable, Iterator, Optional, Sequence, Union

import torch
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput, PlainAOTOutput

from ..dtypes import short_name
from ..errors import E, ExportError, note
from .chosen_values import checked, chosen
from .decisions import Answers, ValuesDecide, answering, is_answering
from .joint_graph import JointGraph
from .running import RunStep
from .nodes import is_random
from .shared_values import Results, SharedValues, Value, reached
from .step_loss import check_outputs

# So many ways through a step are traced: each takes the time of a capture.
_MOST_WAYS = 16
_aten = torch.ops.aten


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
        failure = error
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


@dataclasses.dataclass
class _Way:
    """What a way through the step gives; no results where it ends in an error.

    Attributes:
        conditions: what it has asked for.
    """

    results: Optional[Results]
    conditions: list[Value]
    error: Optional[ExportError] = None


@dataclasses.dataclass
class _Decision:
    """A place where the step goes on in two ways.

    Attributes:
        number: how many decisions come before it.
    """

    line: str
    number: int
    yes: Union[_Way, _Decision]
    no: Union[_Way, _Decision]


_Tree = Union[_Way, _Decision]


class BothWays:
    """The ways through a step, each of which `trace` gives, told what is asked.

    `trace` raises WithoutLoss where a way gives no loss.
    """

    def __init__(self, trace: Callable[[], JointGraph]) -> None:
        self._trace = trace
        self._values = SharedValues()
        self._ways = 0
        self._first: Optional[JointGraph] = None
        self._notes: dict[str, None] = {}

    def traced(self) -> JointGraph:
        """A graph that computes the step whatever it decides.

        Raises:
            ExportError: it decides too often, or its ways do not give the same.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tree = self._explored(())
        for said in {(type(w.message), str(w.message)): w for w in caught}.values():  # by each way
            warnings.warn(said.message, said.category, stacklevel=2)
        way = self._merged(tree)
        if way.error is not None:
            raise way.error
        assert way.results is not None and self._first is not None
        for text in self._notes:
            note(text)
        return JointGraph(self._values.graph(way.results), self._first.states, self._first.metrics)

    def _explored(self, given: Sequence[bool]) -> _Tree:
        answers = Answers(given)
        way = self._way(answers)
        told = [question.answer for question in answers.asked]
        lines = [question.line for question in answers.asked]
        self._ways += 1
        if self._ways + len(told) - len(given) > _MOST_WAYS:
            raise ValuesDecide(
                E.VALUE_DEPENDENT,
                f"{lines[-1]}: the step decides by values so often that there are more than "
                f"{_MOST_WAYS} ways through it, each of which a plan would compute; choose by "
                "torch.where. A branch that skips what has no elements, as an expert without tokens, "
                "can be left out",
            )
        tree: _Tree = way
        for number in reversed(range(len(given), len(told))):
            other = self._explored((*told[:number], not told[number]))
            yes, no = (tree, other) if told[number] else (other, tree)
            tree = _Decision(lines[number], number, yes, no)
        return tree

    def _way(self, answers: Answers) -> _Way:
        try:
            with answering(answers):
                traced = self._trace()
        except WithoutLoss as end:
            return _Way(None, [], end.error)
        self._first = self._first or traced
        if traced.metrics != self._first.metrics:
            raise ValuesDecide(
                E.VALUE_DEPENDENT,
                f"{answers.asked[-1].line}: values decide which metrics the step gives; give all of "
                "them, and choose their values by torch.where",
            )
        results = self._values.add(traced.module)
        first = 1 + len(traced.metrics)
        asked = (PlainAOTOutput(first + number) for number in range(len(answers.asked)))
        conditions = [results.pop(descriptor) for descriptor in asked]
        return _Way(results, conditions)

    def _merged(self, tree: _Tree) -> _Way:
        """What a tree of decisions gives."""
        if isinstance(tree, _Way):
            return tree
        yes, no = self._merged(tree.yes), self._merged(tree.no)
        if yes.results is None and no.results is None:
            return yes
        if yes.results is None or no.results is None:
            return self._checked(tree, yes, no)
        self._notes[
            f"{tree.line}: the step decides by values: what one way alone computes is computed in "
            "each step, and kept where it is taken"
        ] = None
        self._note_draws(tree.line, yes.results, no.results)
        _complete(self._values, yes.results, no.results)
        _require_alike(tree.line, yes.results, no.results)
        condition = yes.conditions[tree.number]
        results = chosen(self._values, condition, yes.results, no.results)
        return _Way(results, yes.conditions)

    def _checked(self, tree: _Decision, yes: _Way, no: _Way) -> _Way:
        """The way that does not end in an error, with a check that it is taken."""
        way, error = (no, yes.error) if yes.results is None else (yes, no.error)
        assert way.results is not None and error is not None
        condition = way.conditions[tree.number]
        if way is no:
            condition = self._values.call(condition, _aten.logical_not.default, condition)
        text = f"{tree.line}: by what values decide here, {error.message}"
        results = dict(way.results)
        loss = PlainAOTOutput(0)
        results[loss] = checked(self._values, condition, text, results[loss])
        self._notes[f"{tree.line}: where values decide that the step has no loss, a run ends"] = (
            None
        )
        return _Way(results, way.conditions)

    def _note_draws(self, line: str, *ways: Results) -> None:
        """Says where random numbers are drawn that eager does not draw."""
        values = (reached(filter(None, results.values())) for results in ways)
        drawn = [{value.draw for value in way if is_random(value.target)} for way in values]
        if drawn[0] != drawn[1]:
            self._notes[
                f"{line}: random numbers of one way alone are drawn in each step, so that with "
                "--rng=sequential those behind them are others than eager's"
            ] = None


def _complete(values: SharedValues, *ways: Results) -> None:
    """Gives each way all results: a buffer that it does not change is what it was, and of what it does
    not reach there is no gradient."""
    for descriptor in dict.fromkeys(itertools.chain(*ways)):
        for results in ways:
            if descriptor not in results:
                unchanged = None
                if isinstance(descriptor, InputMutationAOTOutput):
                    unchanged = values.input(descriptor.mutated_input)
                results[descriptor] = unchanged


def _require_alike(line: str, yes: Results, no: Results) -> None:
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

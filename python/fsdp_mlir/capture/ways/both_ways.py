"""A step that decides by values: it is traced for each answer, and a plan computes all and chooses."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Callable, Union

import torch
from torch._functorch._aot_autograd.descriptors import PlainAOTOutput

from ...errors import note
from ..graph.joint_graph import JointGraph
from ..graph.nodes import is_random
from ..state.trials import Trials
from .apart import Apart, too_many
from .chosen_values import checked, chosen, number_of_checks
from .left_in_python import require_none_read
from .shared_values import Results, reached
from .ways import MOST_WAYS, Way, Ways, complete, require_alike, say_which_have

_aten = torch.ops.aten


@dataclasses.dataclass
class _Decision:
    """A place where the step goes on in two ways.

    Attributes:
        number: how many decisions come before it.
    """

    line: str
    number: int
    yes: Union[Way, _Decision]
    no: Union[Way, _Decision]


_Tree = Union[Way, _Decision]


class BothWays:
    """The ways through a step, each of which `trace` gives, told what is asked (`ways.Ways`); `trials`
    gives those of the same step."""

    def __init__(self, trace: Callable[[], JointGraph], trials: Callable[[], Trials]) -> None:
        self._ways = Ways(trace)
        self._trials = trials
        self._values = self._ways.values
        self._traced = 0
        self._notes: dict[str, None] = {}

    def traced(self) -> JointGraph:
        """A graph that computes the step whatever it decides.

        Raises:
            ExportError: it decides too often, or its ways do not give the same.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            first = self._ways.way(())
            if 1 << len(first.told) > MOST_WAYS:
                way = self._apart(first)
            else:
                way = self._merged(self._explored(first, 0))
            ways = self._ways.with_loss.values()
            if any(way.leaves_state for way in ways):
                require_none_read(self._trials(), ways)
        for said in {(type(w.message), str(w.message)): w for w in caught}.values():  # by each way
            warnings.warn(said.message, said.category, stacklevel=2)
        if way.error is not None:
            raise way.error
        graph = self._ways.first
        assert way.results is not None and graph is not None
        for line in self._ways.saving:
            self._notes[f"{line}: what the step saves here, no plan saves"] = None
        for text in self._notes:
            note(text)
        return JointGraph(self._values.graph(way.results), graph.states, graph.metrics)

    def _apart(self, first: Way) -> Way:
        """The whole step, where its decisions stand apart."""
        apart = Apart(self._ways, first)
        for line, *results in apart.parting:
            self._note_both(line)
            self._note_draws(line, *results)
        for line in apart.without_loss:
            self._note_end(line)
        return apart.whole()

    def _explored(self, way: Way, given: int) -> _Tree:
        """The tree of a way and of those that part from it behind so many answers."""
        self._traced += 1
        if self._traced + len(way.told) - given > MOST_WAYS:
            raise too_many(way.lines[-1])
        tree: _Tree = way
        for number in reversed(range(given, len(way.told))):
            answers = *way.told[:number], not way.told[number]
            other = self._explored(self._ways.way(answers), number + 1)
            yes, no = (tree, other) if way.told[number] else (other, tree)
            tree = _Decision(way.lines[number], number, yes, no)
        return tree

    def _merged(self, tree: _Tree) -> Way:
        """What a tree of decisions gives."""
        if isinstance(tree, Way):
            return tree
        yes, no = self._merged(tree.yes), self._merged(tree.no)
        if yes.results is None and no.results is None:
            return yes
        if yes.results is None or no.results is None:
            return self._checked(tree, yes, no)
        self._note_both(tree.line)
        self._note_draws(tree.line, yes.results, no.results)
        complete(self._values, yes.results, no.results)
        say_which_have(self._values, yes.results, no.results)
        require_alike(tree.line, yes.results, no.results)
        condition = min(
            (way.conditions[tree.number] for way in (yes, no)),
            key=number_of_checks,
        )
        # What was asked before may be computed otherwise on each way, which promises sizes of its own.
        before = range(tree.number)
        both = [{**way.results, **dict(zip(before, way.conditions))} for way in (yes, no)]
        results = chosen(self._values, condition, *both)
        conditions = [results.pop(number) for number in before]
        return dataclasses.replace(yes, results=results, conditions=conditions)

    def _checked(self, tree: _Decision, yes: Way, no: Way) -> Way:
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
        self._note_end(tree.line)
        return dataclasses.replace(way, results=results)

    def _note_both(self, line: str) -> None:
        self._notes[
            f"{line}: the step decides by values: what one way alone computes is computed in each "
            "step, and kept where it is taken"
        ] = None

    def _note_end(self, line: str) -> None:
        self._notes[f"{line}: where values decide that the step has no loss, a run ends"] = None

    def _note_draws(self, line: str, *ways: Results) -> None:
        """Says where random numbers are drawn that eager does not draw."""
        values = (reached(filter(None, results.values())) for results in ways)
        drawn = [{value.draw for value in way if is_random(value.target)} for way in values]
        if drawn[0] != drawn[1]:
            self._notes[
                f"{line}: random numbers of one way alone are drawn in each step, so that with "
                "--rng=sequential those behind them are others than eager's"
            ] = None

"""Follows whole steps of an optimizer, one after the other, in every way that they can go."""

from __future__ import annotations

import collections
import copy
import functools
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Callable, Mapping, NoReturn, Optional, Sequence

import torch

from ..capture.graph.program import Setting
from ..capture.graph.set_parameters import changed_in_place
from ..errors import E, ExportError
from ..step.strides import has_gaps, row_major_strides
from .alike import Followed
from .branches import Way
from .context import following
from .lines import line_of, line_of_step
from .merge import Merger
from .numbers import Number, same_value
from .raised import reason_of
from .reach import check_kept_tensors, check_reach, check_state_keys
from .trace import Trace
from .group_entries import (
    Entries,
    KeptEntry,
    drop_entries,
    entries_left,
    kept_entries,
    options_of,
    plain_entries,
    state_of_entry,
)
from .kept_state import (
    first_state,
    kept_of,
    later_state,
    left_state,
    members_of,
    with_members,
)
from .pairs import element_dtype
from .values import Comparison, Expr, Pool, holds_for
from .schedule import Schedule, set_number
from .state_numbers import AfterStep, StateNumbers

# How many ways through a step are followed.
_WAYS = 64
Group = dict[str, Any]


class Follower:
    """Follows steps of a copy of the optimizer, on tensors without values."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        followed: Followed,
        schedule: Schedule,
        pool: Pool,
        settings: Mapping[str, Setting] = MappingProxyType({}),
    ) -> None:
        self.optimizer, self.groups, self.pool = optimizer, followed.groups, pool
        self.settings = settings
        self.scheduled = [pool.make("hyperparameter", *column) for column in schedule.columns]
        self.in_first_step = self._values(schedule.rows[0])
        # Learning rates may become others in a run; what else changes is in the table.
        self._rows = {
            tuple(None if x.operands[1] == "lr" else y for x, y in zip(self.scheduled, row))
            for row in schedule.rows
        }
        self.name = type(optimizer).__name__
        self.fqns = [fqn for members in self.groups for fqn in members]
        self.tensors = followed.tensors
        # What the last step left: the optimizer's attributes, groups' other entries, and state.
        self.attributes = self._copied(
            {k: v for k, v in vars(optimizer).items() if k not in ("state", "param_groups")}
        )
        options = self._copied([options_of(group) for group in optimizer.param_groups])
        self.entries = [plain_entries(entries, optimizer) for entries in options]
        # Python state that a step has changed, and what names it in the optimizer's source.
        self.changed: dict[str, str] = {}
        self.state: list[dict[str, Any]] = [dict(optimizer.state.get(p, {})) for p in self.tensors]
        # Parameters that some way through a step has changed.
        self.updated: set[int] = set()
        self.numbers = StateNumbers(
            pool, [self._members(g) for g in range(len(self.groups)) for _ in self.groups[g]]
        )

    def _copied(self, values: Any) -> Any:
        tensors = (p for group in self.optimizer.param_groups for p in group["params"])
        kept = {id(x): x for x in (self.optimizer, *tensors)}
        try:
            return copy.deepcopy(values, kept)
        except Exception:
            return copy.copy(values)

    def _values(self, row: Sequence[Optional[float]]) -> dict[Expr, Expr]:
        """The scheduled numbers that are known in a row of the schedule."""
        return {x: self.pool.constant(y) for x, y in zip(self.scheduled, row) if y is not None}

    def _in_all_steps(self, comparison: Comparison) -> Optional[bool]:
        """The result of a comparison of scheduled numbers; None where it changes from step to step."""
        op, a, b = comparison
        outcome: Optional[bool] = None
        for row in self._rows:
            known = self._values(row)
            x, y = self.pool.substitute(a, known), self.pool.substitute(b, known)
            if x.op != "constant" or y.op != "constant":
                return None
            holds = holds_for(op, x.operands[0], y.operands[0])
            if outcome is None:
                outcome = holds
            if outcome != holds:
                return None
        return outcome

    def fail(self, what: str, text: str = "") -> NoReturn:
        where = line_of_step(type(self.optimizer), text)
        raise ExportError(E.OPTIMIZER_STEP, f"{where}the step of {self.name} {what}")

    def follow_first(self) -> list[AfterStep]:
        """The first step, which makes the optimizer's state."""
        return self.follow(first_state)

    def follow_together(self) -> tuple[list[AfterStep], bool]:
        """The first step of all groups together, in one of the ways that it can go; and whether
        it is the only one. It leaves nothing."""
        trace = Trace(self.pool, self.name, self._in_all_steps, Way())
        changed, updated = dict(self.changed), set(self.updated)
        outcomes, *_ = self._run(trace, range(len(self.groups)), first_state)
        self.changed, self.updated = changed, updated
        return outcomes, not (trace.branches.decisions or trace.branches.of_parameters)

    def follow_later(self, first: list[AfterStep]) -> list[AfterStep]:
        """A step that finds the state which `first` has made. What of it is one number counts the
        steps, or else follows from what it was."""
        before = self.attributes, self.entries, self.state
        self.numbers.begin(self.state)
        while True:
            outcomes = self.follow(self._later_state)
            if self.numbers.agree(first, outcomes):
                return outcomes
            self.attributes, self.entries, self.state = before

    def _members(self, group: int) -> range:
        start = sum(map(len, self.groups[:group]))
        return range(start, start + len(self.groups[group]))

    def _later_state(
        self, trace: Trace, index: int, param: torch.Tensor, name: str, value: Any
    ) -> Any:
        if (index, name) in self.numbers.fixed:
            return value
        return later_state(trace, index, param, name, value, self.numbers.found(index, name))

    def follow(self, place: Callable[[Trace, int, torch.Tensor, str, Any], Any]) -> list[AfterStep]:
        """Every way through one step, merged. `place` gives the value that a state begins with.

        Groups are followed one by one, since each may go its own ways.
        """
        outcomes: list[AfterStep] = []
        begun = self.attributes
        for group in range(len(self.groups)):
            self.attributes = begun
            outcomes += self._follow_group(group, place)
        return outcomes

    def _follow_group(self, group: int, place: Callable[..., Any]) -> list[AfterStep]:
        ways = 0
        left: list[Any] = []

        def explore(way: Way) -> list[AfterStep]:
            nonlocal ways
            ways += 1
            if ways > _WAYS:
                self.fail(
                    f"branches in more than {_WAYS} ways on numbers that change between steps"
                )
            trace = Trace(self.pool, self.name, self._in_all_steps, way)
            outcomes, *after = self._run(trace, [group], place)
            left.append(after)
            for new in (key for key in trace.branches.decisions if key not in way.shared):
                merger = Merger(self.pool, new)
                yes, no = (
                    explore(replace(way, shared={**way.shared, new: held}))
                    for held in (True, False)
                )
                return [self._merge(merger, a, b) for a, b in zip(yes, no)]
            # Parameters branch by themselves: all of them at once.
            depth = len(way.own)
            conditions = {
                index: list(taken)[depth]
                for index, taken in trace.branches.of_parameters.items()
                if len(taken) > depth
            }
            if not conditions:
                return outcomes
            yes, no = (
                explore(replace(way, own=(*way.own, (held, conditions)))) for held in (True, False)
            )
            return [
                (
                    self._merge(Merger(self.pool, conditions[index]), a, b)
                    if index in conditions
                    else b
                )
                for index, a, b in zip(self._members(group), yes, no)
            ]

        outcomes = explore(Way())
        self.attributes, _, state = left[0]
        kept = {key: value for _, [own], _ in left for key, value in own.items()}
        if place is first_state:
            self.entries = [*self.entries]
            self.entries[group] = {**self.entries[group], **kept}
        for key in kept.keys() - kept_entries(self.entries[group]).keys():
            self._refuse_entry(key)
        for outcome in outcomes:
            drop_entries(outcome.states, but=kept)
        self.state = list(self.state)
        for index, own in zip(self._members(group), state):
            self.state[index] = own
        return outcomes

    def _merge(self, merger: Merger, a: AfterStep, b: AfterStep) -> AfterStep:
        if set(a.states) != set(b.states):
            self.fail("has other state after some steps than after others")
        states = {name: merger.merge(a.states[name], b.states[name]) for name in b.states}
        begins = {name: x for name, x in b.begins.items() if a.begins.get(name) is x}
        return AfterStep(merger.merge(a.param, b.param), states, begins)

    def _run(
        self, trace: Trace, groups: Sequence[int], place: Callable[..., Any]
    ) -> tuple[Any, ...]:
        """The step of an optimizer that has only these groups."""
        shadow = object.__new__(type(self.optimizer))
        shadow.__dict__.update(self._copied(self.attributes))
        given = [self._copied(self.entries[group]) for group in groups]
        for number in self.scheduled:
            if number.operands[0] in groups:
                own = given[groups.index(number.operands[0])]
                set_number(own, number.operands[1], Number(trace, number))
        members = [i for group in groups for i in self._members(group)]
        try:
            with following(trace), torch.no_grad():
                params = [self._parameter(trace, i) for i in members]
                before = [trace.value_of(p) for p in params]
                fakes = {name for p in params for name in vars(p)}
                states = [
                    with_members(functools.partial(place, trace, i, p), self.state[i])
                    for i, p in zip(members, params)
                ]
                left = iter(params)
                shadow.param_groups = []
                for group, own in zip(groups, given):
                    start = self._members(group).start
                    for key, entry in kept_entries(own).items():
                        number = self.numbers.found(start, state_of_entry(key))
                        own[key] = entry.found(trace, number)
                    its = [next(left) for _ in self._members(group)]
                    shadow.param_groups.append(Entries({"params": its, **own}))
                self._set(members, params)
                held = list(shadow.param_groups)
                shadow.state = collections.defaultdict(dict)
                shadow.state.update({p: s for p, s in zip(params, states) if s})
                type(self.optimizer).step(shadow)
                outcomes = [self._outcome(trace, p, shadow.state.get(p, {})) for p in params]
                check_state_keys(type(self.optimizer), shadow.state)
                check_kept_tensors(trace.made, params, fakes, vars(shadow), self.fail)
                after = [kept_of(trace, shadow.state.get(p, {})) for p in params]
                kept = [
                    self._left_entries(trace, *x, dict(zip(members, outcomes)))
                    for x in zip(groups, held, given)
                ]
        except ExportError:
            raise
        except Exception as error:
            raise ExportError(
                E.OPTIMIZER_STEP,
                f"{line_of(error)}the step of {self.name} {reason_of(error, self.attributes)}",
            ) from error
        self.updated.update(
            index
            for index, value, outcome in zip(members, before, outcomes)
            if outcome.param is not value
        )
        attributes = {k: v for k, v in vars(shadow).items() if k not in ("state", "param_groups")}
        self._check_attributes(attributes)
        return outcomes, attributes, kept, after

    def _set(self, members: Sequence[int], params: Sequence[torch.Tensor]) -> None:
        """Sets the parameters that are set in front of the step."""
        for index, param in zip(members, params):
            setting = self.settings.get(self.fqns[index])
            if setting is None:
                continue
            try:
                param.copy_(setting.module(param))
            except Exception as error:
                raise changed_in_place(self.fqns[index], setting.node) from error

    def _parameter(self, trace: Trace, index: int) -> torch.Tensor:
        like = self.tensors[index]
        # One that has no dimension is taken for one of one element. All are held row by row.
        shape = like.shape if like.dim() else (1,)
        stride = row_major_strides(shape)

        def make(name: str) -> torch.Tensor:
            value = self.pool.make("input", index, name, dtype=element_dtype(like.dtype))
            return trace.make(shape, stride, like.dtype, value)

        trace.shapes[index] = torch.Size((*shape, 2) if like.is_complex() else shape)
        tensor = make("param")
        if like.requires_grad:
            tensor.requires_grad_().grad = make("grad")
        return tensor

    def _outcome(self, trace: Trace, param: torch.Tensor, state: dict[str, Any]) -> AfterStep:
        values, begins = {}, {}
        for name, value in members_of(state).items():
            if isinstance(value, torch.Tensor):
                values[name] = left_state(trace, value)
                if values[name].is_number:
                    begins[name] = trace.first_value_of(value)
                if not value.is_contiguous() and has_gaps(value):
                    self.fail(f"keeps state {name} of shape {list(value.shape)} that has gaps")
            elif isinstance(value, (int, float, Number)) and not isinstance(value, bool):
                values[name] = trace.number(value)
        return AfterStep(trace.value_of(param), values, begins)

    def shape_of_state(self, index: int, name: str) -> Optional[tuple[int, ...]]:
        """The shape of a tensor that the last step has left; None: the parameter's."""
        shape = members_of(self.state[index])[name].layout[0] or (1,)
        return None if shape == (tuple(self.tensors[index].shape) or (1,)) else shape

    def check_unchanged(self) -> None:
        """Raises ExportError where a step has changed what is neither state nor a tensor."""
        for what, text in self.changed.items():
            raise ExportError(
                E.OPTIMIZER_STEP,
                f"{line_of_step(type(self.optimizer), text)}the step of {self.name} changes Python "
                f"state ({what}), so that the next step is another one; keep it in the optimizer's "
                "state, per parameter",
            )

    def check_updated(self) -> None:
        """Raises ExportError where a step reaches a parameter otherwise than by its groups."""
        forgotten = {
            id(tensor): fqn
            for index, (fqn, tensor) in enumerate(zip(self.fqns, self.tensors))
            if tensor.requires_grad and index not in self.updated
        }
        check_reach(type(self.optimizer), self.attributes, forgotten)

    def _check_attributes(self, after: dict[str, Any]) -> None:
        for key, value in after.items():
            counts = isinstance(value, (int, float, Number)) and not isinstance(value, bool)
            if counts and not same_value(value, self.attributes.get(key)):
                self.changed.setdefault(key, f"self.{key}")

    def _left_entries(
        self,
        trace: Trace,
        group: int,
        entries: Entries,
        given: Group,
        outcomes: dict[int, AfterStep],
    ) -> dict[str, KeptEntry]:
        """The entries that steps change. What a group's numbers are is state of its parameters."""
        columns = [x.operands for x in self.scheduled]
        scheduled = {name.partition(".")[0] for number, name in columns if number == group}
        kept = kept_entries(self.entries[group])
        refusals = self._refuse_entry, self._refuse_tensor
        left = entries_left(trace, entries, given, kept, scheduled, *refusals)
        for index in self._members(group):
            outcomes[index].states.update(left.numbers)
            outcomes[index].begins.update(left.begins)
        return left.kept

    def _refuse_entry(self, key: str) -> None:
        self.changed.setdefault(f"{key} of its parameter groups", f'"{key}"')

    def _refuse_tensor(self, key: str) -> NoReturn:
        self.fail(
            f"keeps in {key!r} of its parameter groups a number that follows from what tensors hold; "
            "keep it in the optimizer's state, per parameter, as a tensor",
            f'"{key}"',
        )

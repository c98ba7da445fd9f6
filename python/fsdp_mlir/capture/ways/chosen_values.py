"""Two ways through a step as one: what both compute alike is computed once, of what a condition has
chosen.

Both ways may end with the same operator of the same line, `f(a)` and `f(b)`: that is
`f(where(condition, a, b))`. So what follows behind a branch is computed once, and its backward pass
is too. A choice is made of values that are computed already. Nothing is differentiated through it, so
that NaN on the way that is not taken stays there.
"""

from __future__ import annotations

import operator
from typing import Any, Iterator, Optional, Sequence

import torch

from ..graph.nodes import same_strides
from .shared_values import Cycle, Made, Results, SharedValues, Value, map_values, reached

_aten = torch.ops.aten
_CHECK = _aten._functional_assert_async.msg
Pair = tuple[Value, Value]
# A value, for the way of this number, or for both.
_Task = tuple[Value, Optional[int]]


def chosen(values: SharedValues, condition: Value, yes: Results, no: Results) -> Results:
    """The results of `yes` where `condition` holds, of `no` elsewhere."""
    never = values.call(condition, _aten.logical_not.default, condition)
    common = reached(filter(None, yes.values())) & reached(filter(None, no.values()))
    yes = _checked_where(values, never, yes, common)
    no = _checked_where(values, condition, no, common)
    choice = _Choice(values, condition, common)
    for descriptor in yes:
        choice.need(yes[descriptor], no[descriptor])
    return choice.results(yes, no)


def checked(values: SharedValues, condition: Value, text: str, token: Value) -> Value:
    """`token`, which is given only where `condition` holds."""
    return values.call(token, _CHECK, condition, text, token)


def number_of_checks(value: Value) -> int:
    """How many checks end a run before it has `value`."""
    return sum(found.target is _CHECK for found in reached([value]))


def all_hold(values: SharedValues, conditions: Sequence[Value], answers: Sequence[bool]) -> Value:
    """Whether each of some conditions is what its answer says."""
    whole: Optional[Value] = None
    for condition, answer in zip(conditions, answers, strict=True):
        if not answer:
            condition = values.call(condition, _aten.logical_not.default, condition)
        if whole is not None:
            condition = values.call(whole, _aten.logical_and.default, whole, condition)
        whole = condition
    assert whole is not None
    return whole


def _checked_where(
    values: SharedValues, excused: Value, results: Results, common: set[Value]
) -> Results:
    """`results`, whose own checks also pass where `excused` holds: on the other way."""
    changed: dict[Value, Value] = {}
    for value in sorted(reached(filter(None, results.values())), key=lambda v: v.number):
        if value in common:
            changed[value] = value
            continue
        arguments = map_values(value.arguments, changed.__getitem__)
        if value.target is _CHECK:
            (condition, *rest), names = arguments
            passes = values.call(condition, _aten.logical_or.default, condition, excused)
            arguments = (passes, *rest), names
        changed[value] = values.again(value, arguments)
    return {key: None if v is None else changed[v] for key, v in results.items()}


class _Choice:
    """What takes the place of pairs of values: one where a condition holds, the other elsewhere.

    Args:
        common: what both ways compute.
    """

    def __init__(self, values: SharedValues, condition: Value, common: set[Value]) -> None:
        self._values = values
        self._condition = condition
        self._common = common
        self._pairs: dict[Pair, Optional[list[Pair]]] = {}
        self._found: dict[Pair, Optional[Value]] = {}
        self._selections: dict[Value, Pair] = {}

    def need(self, yes: Optional[Value], no: Optional[Value]) -> None:
        """Looks for what two results have in common."""
        waiting = [] if yes is None or no is None else [(yes, no)]
        while waiting:
            pair = waiting.pop()
            if pair not in self._pairs and pair[0] is not pair[1]:
                self._pairs[pair] = list(_operands(*pair)) if are_alike(*pair) else None
                waiting += self._pairs[pair] or []

    def results(self, yes: Results, no: Results) -> Results:
        for pair in sorted(self._pairs, key=lambda p: (p[0].number, p[1].number)):
            self._found[pair] = self._merged(*pair) or self._selected_alike(*pair)
        whole = {key: self._result(one, no[key]) for key, one in yes.items()}
        once = _Once(self._values, self._condition, self._common, self._found, self._selections)
        try:
            return once.results(whole)
        except Cycle:
            return whole

    def _of(self, pair: Pair) -> Optional[Value]:
        """What takes the place of two values; None: nothing is found for them."""
        return pair[0] if pair[0] is pair[1] else self._found.get(pair)

    def _merged(self, yes: Value, no: Value) -> Optional[Value]:
        """The same call of what its operands are."""
        pairs = self._pairs[yes, no]
        if pairs is None or any(self._of(pair) is None for pair in pairs):
            return None
        operands = iter(pairs)
        arguments = map_values(yes.arguments, lambda _: self._of(next(operands)))
        return self._values.again(yes, arguments)

    def _selected_alike(self, yes: Value, no: Value) -> Optional[Value]:
        """A choice of two tensors that lie as it does; None: not of these, or of calls with several
        results, among which their readers choose."""
        tensors = yes.meta["val"], no.meta["val"]
        if yes.is_backward != no.is_backward or not lie_alike(*tensors):
            return None
        if not isinstance(tensors[0], torch.Tensor):
            return None
        found = self._selected(yes, no)
        return found if same_strides(found.meta["val"], tensors[0]) else None

    def _selected(self, yes: Value, no: Value) -> Value:
        """A choice of two tensors."""
        found = self._values.call(yes, _aten.where.self, self._condition, yes, no)
        self._selections[found] = yes, no
        return found

    def _result(self, yes: Optional[Value], no: Optional[Value]) -> Optional[Value]:
        """What takes the place of two results."""
        if yes is None or no is None:  # no gradient on one way
            one = yes or no
            if one is None:
                return None
            zero = self._values.number(one, 0)
            yes, no = yes or zero, no or zero
        return self._of((yes, no)) or self._selected(yes, no)


class _Once:
    """Has what is computed on one way alone read what is computed for both, which is the same where
    that way is taken: so nothing behind a branch is computed for each way.

    Raises Cycle where that is computed of it.
    """

    def __init__(
        self,
        values: SharedValues,
        condition: Value,
        common: set[Value],
        found: dict[Pair, Optional[Value]],
        selections: dict[Value, Pair],
    ) -> None:
        self._values = values
        self._condition = condition
        self._selections = selections
        self._instead: tuple[dict[Value, Value], ...] = ({}, {})
        for pair, value in found.items():
            if value is not None and value not in selections:
                for own, instead in zip(pair, self._instead):
                    if own not in common:
                        instead.setdefault(own, value)
        self._common = common
        self._made = Made(self._needs, self._make)

    def results(self, whole: Results) -> Results:
        return {key: None if v is None else self._made.of((v, None)) for key, v in whole.items()}

    def _needs(self, task: _Task) -> list[_Task]:
        """What must be made before a value, which is for both ways or for one."""
        value, way = task
        if value in self._common:
            return []
        if way is None and value in self._selections:
            yes, no = self._selections[value]
            return [(yes, 0), (no, 1)]
        if way is not None and value in self._instead[way]:
            return [(self._instead[way][value], None)]
        return [(operand, way) for operand in value.operands]

    def _make(self, task: _Task, made: list[Value]) -> Value:
        value, way = task
        if value in self._common:
            return value
        if way is None and value in self._selections:
            return self._values.call(value, _aten.where.self, self._condition, *made)
        if way is not None and value in self._instead[way]:
            return made[0]
        operands = iter(made)
        return self._values.again(value, map_values(value.arguments, lambda _: next(operands)))


def _operands(yes: Value, no: Value) -> Iterator[Pair]:
    return zip(yes.operands, no.operands)


def are_alike(yes: Value, no: Value, anywhere: bool = False) -> bool:
    """Whether two calls are of one operator, on one line of the code unless `anywhere`, with operands and
    results that lie alike."""
    if yes.op != "call_function" or no.op != yes.op or yes.target is not no.target:
        return False
    if yes.is_backward != no.is_backward or yes.draw != no.draw:
        return False
    if not anywhere and _code(yes) != _code(no):
        return False
    without = [map_values(value.arguments, lambda _: "a value") for value in (yes, no)]
    if repr(without[0]) != repr(without[1]):
        return False
    if yes.target is not operator.getitem and not lie_alike(yes.meta["val"], no.meta["val"]):
        return False
    return all(lie_alike(one.meta["val"], other.meta["val"]) for one, other in _operands(yes, no))


def _code(value: Value) -> Any:
    """The line and the module that a value, or what it is a gradient of, is from."""
    modules = value.meta.get("nn_module_stack") or value.meta.get("fwd_nn_module_stack")
    return value.meta.get("stack_trace"), list(modules or ())


def lie_alike(one: Any, other: Any) -> bool:
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(lie_alike, one, other))
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return one is None and other is None
    about = [(t.shape, t.dtype, t.device, t.is_contiguous()) for t in (one, other)]
    return about[0] == about[1] and same_strides(one, other)

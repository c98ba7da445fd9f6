"""What ways through a step compute otherwise than its first way, and several such changes at once.

A way that parts from the first one at one place gives other values there. What follows is computed as
in the first way, of those values. So a change is which values of the first way have others in their
place, and changes of several places can be put into the graph of the first way together.
"""

from __future__ import annotations

import functools
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import torch

from .chosen_values import all_hold, are_alike, lie_alike
from .shared_values import Made, Results, SharedValues, Value, map_values, reached
from .summands import Summand, is_sum, missing
from .truths import Truth, Truths

_aten = torch.ops.aten
Pair = tuple[Value, Value]
# What a way was asked, and what it was told.
Told = tuple[Value, bool]


class Link(NamedTuple):
    """A call that a change may replace.

    Attributes:
        value: the first way's.
        other: the other way's.
        first: the first way's call that this is, of the first way's values.
    """

    value: Value
    other: Value
    first: Value


class Change:
    """What a way computes otherwise than the first one.

    Attributes:
        replaced: values of the first way, and what the other one has in their place.
        cut: sums of the first way, and which of their operands the other one does not add.
        results: results that have nothing in common, as where one way has no gradient.
        same: values of the other way that are the same call in the first one, of what takes its
            operands' places.
        chains: where it may replace something (`chains.settle` chooses).

    Args:
        values: those of both ways.
        places: where the first way computes each of its values.
        parting: the places where its forward pass parts from the other one, behind what decides that.
    """

    def __init__(
        self,
        values: SharedValues,
        first: Results,
        other: Results,
        places: Mapping[Value, int],
        parting: range,
    ) -> None:
        self.replaced: dict[Value, Value] = {}
        self.cut: dict[Value, set[int]] = {}
        self.results: Results = {}
        self.same: dict[Value, Value] = {}
        self._places = places
        self._parting = parting
        self._operands: dict[Pair, Optional[list[Pair]]] = {}
        self._missing: dict[Pair, list[Summand]] = {}
        pairs = {key: (value, other[key]) for key, value in first.items()}
        known = [pair for pair in pairs.values() if None not in pair]
        self._look(pair for pair in known if not pair[0].is_backward)
        # A value of the forward pass that the backward pass alone reads replaces none. In a chain of
        # gradients, where each link leaves out some rows, one link's rows would be taken for the
        # next link's.
        self._in_forward = set(self._operands)
        self._look(known)
        self._is_same: dict[Pair, Optional[bool]] = {}
        for pair in sorted(self._operands, key=lambda p: (p[0].number, p[1].number)):
            self._is_same[pair] = self._compared(pair)
        for key, pair in pairs.items():
            if None not in pair and self._is_found(pair):
                self._take(pair)
            elif pair[0] is not pair[1]:
                self.results[key] = pair[1]
        self._find_same(values)
        self.chains = self._chains(values, first)

    def changes(self, value: Value) -> bool:
        """Whether a value of the first way is another one in the other way, of the same operands."""
        return value in self.replaced or value in self.cut

    def _look(self, pairs: Any) -> None:
        """Finds what two values, and all that they are computed of, may have in common."""
        waiting = list(pairs)
        while waiting:
            pair = waiting.pop()
            if pair in self._operands or pair[0] is pair[1]:
                continue
            self._operands[pair] = self._below(*pair)
            waiting += self._operands[pair] or []

    def _below(self, first: Value, other: Value) -> Optional[list[Pair]]:
        """The pairs of two values' operands, where they may be the same call."""
        if self._is_in_front(first) or self._is_in_front(other):
            return None
        summed = missing(first, other)
        if summed is not None:
            self._missing[first, other] = [summand for summand, its in summed if its is None]
            return [(summand.value, its) for summand, its in summed if its is not None]
        # A call that the first way has elsewhere, as what two layers make of one value, has that line.
        if not are_alike(first, other, anywhere=other in self._places):
            return None
        return list(zip(first.operands, other.operands))

    def _is_found(self, pair: Pair) -> bool:
        return pair[0] is pair[1] or self._is_same.get(pair) is not None

    def _is_in_front(self, value: Value) -> bool:
        """Whether both ways have computed a value when they part."""
        is_known = value in self._places and not value.is_backward
        return is_known and self._places[value] < self._parting.start

    def _compared(self, pair: Pair) -> Optional[bool]:
        """Whether two values are the same call, or one takes the other's place; None: neither."""
        first, other = pair
        if self._is_in_front(first):
            return None
        operands = self._operands[pair]
        # A sum of what has nothing in common is another sum: one layer's gradient, and the next one's.
        is_other = is_sum(first) and all(self._is_same.get(p) is False for p in operands or [])
        if operands is not None and all(map(self._is_found, operands)) and not is_other:
            return True
        tensors = first.meta.get("val"), other.meta.get("val")
        if not isinstance(tensors[0], torch.Tensor) or not lie_alike(*tensors):
            return None
        if first.is_backward != other.is_backward:
            return None
        may_part = pair in self._in_forward and self._places[first] in self._parting
        may_be_replaced = first.is_gradient and other.is_gradient
        return False if may_be_replaced or may_part else None

    def _take(self, pair: Pair) -> None:
        waiting = [pair]
        while waiting:
            first, other = waiting.pop()
            if first is other:
                continue
            if not self._is_same[first, other] or self.same.get(other, first) is not first:
                self.replaced[first] = other
                continue
            absent = self._missing.get((first, other), [])
            for summand in absent:
                self.cut.setdefault(summand.addition, set()).add(summand.position)
            if not absent or is_sum(other):  # else it is the one summand that is left
                if other in self.same:
                    continue
                self.same[other] = first
            waiting += self._operands[first, other] or []

    def _find_same(self, values: SharedValues) -> None:
        """Adds to `same` what the replacements are computed of, where the first way has the same call
        of the same operands."""
        for value in sorted(reached(self.replaced.values()), key=lambda v: v.number):
            if value in self.same or value in self._places:
                continue
            known = self._in_first(values, value, self.same)
            if known is not None:
                self.same[value] = known

    def _in_first(self, values: SharedValues, value: Value, same: Mapping[Value, Value]) -> Any:
        """The call of the first way that is `value`, with the first way's values for its operands, which
        are `same`; None: it has no such call."""
        known = values.known(value, map_values(value.arguments, lambda v: same.get(v, v)))
        return known if known in self._places else None

    def _chains(self, values: SharedValues, first: Results) -> list[list[Link]]:
        """For each replacement that the first way has too, the calls of which each is computed of the one
        before: to replace another one of them is the same change."""
        users: dict[Value, set[Value]] = {}
        for value in reached(filter(None, first.values())):
            for operand in value.operands:
                users.setdefault(operand, set()).add(value)
        their_users = {user: other for other, user in self.same.items()}
        return [
            self._chain(values, Link(value, other, self.same[other]), users, their_users)
            for value, other in self.replaced.items()
            if other in self.same
        ]

    def _chain(
        self,
        values: SharedValues,
        link: Link,
        users: Mapping[Value, set[Value]],
        their_users: Mapping[Value, Value],
    ) -> list[Link]:
        chain, same = [link], dict(self.same)
        while len(users.get(link.value, ())) == 1:
            (user,) = users[link.value]
            other = their_users.get(user)
            if other is None or link.other not in other.operands:
                break
            known = self._in_first(values, other, same)
            if known is None or known is user:
                break
            link, same[other] = Link(user, other, known), known
            chain.append(link)
        return chain

    def replace_at(self, chain: Sequence[Link], number: int) -> None:
        """Replaces the call of this number of one of `chains`, and no other of it."""
        del self.replaced[chain[0].value]
        self.replaced[chain[number].value] = chain[number].other
        self.same.update((link.other, link.first) for link in chain[: number + 1])


# A value of the first way, or of the change of this number, and a set of changes that are left out of
# it: one bit for each.
_Task = tuple[Value, Optional[int], int]


class Changed:
    """The first way with `changes` in it, in the order in which the step comes to them.

    Args:
        told: for each change, what it takes for the step to go its way; None: it does.
    """

    def __init__(
        self,
        values: SharedValues,
        first: Results,
        changes: Sequence[Change],
        told: Optional[Sequence[Sequence[Told]]] = None,
    ) -> None:
        self._values = values
        self._first = first
        self._changes = changes
        self._told = told
        self._reach: dict[Value, int] = {}
        for value in sorted(reached(filter(None, first.values())), key=lambda v: v.number):
            mask = sum(1 << k for k, change in enumerate(changes) if change.changes(value))
            for operand in value.operands:
                mask |= self._reach[operand]
            self._reach[value] = mask
        self._made = Made(functools.partial(self._needs, decides=True), self._make)
        self._present = Made(functools.partial(self._needs, decides=False), self._is_present)

    def of(self, value: Value, change: Optional[int]) -> Value:
        """A value of the first way or of a change, with the others in it; raises as `result` does."""
        return self._made.of(self._task(value, change, 0))

    def result(self, key: Any) -> Optional[Value]:
        """What it gives where the first way gives `first[key]`.

        Raises:
            Cycle: what changes compute is computed of each other.
        """
        value = self._first[key]
        result = None if value is None else self.of(value, None)
        for number, change in enumerate(self._changes):
            if key not in change.results:
                continue
            other = change.results[key]
            other = None if other is None else self.of(other, number)
            at = other or result
            if self._told is None or at is None:
                result = other
                continue
            zero = self._values.number(at, 0)
            flags = [self.of(condition, number) for condition in self._conditions(number)]
            result = self._chosen(number, flags, other or zero, result or zero)
        return result

    def has(self, key: Any) -> Truth:
        """Whether it gives the gradient `first[key]`: what it adds up may be cut on each way that it
        goes. Raises as `result` does."""
        value = self._first[key]
        truths = Truths(self._values)
        result: Truth = value is not None and self._present.of(self._task(value, None, 0))
        for number, change in enumerate(self._changes):
            if key in change.results:
                other = change.results[key]
                is_there = other is not None and self._present.of(self._task(other, number, 0))
                result = truths.where(self._goes(number, 0), is_there, result)
        return result

    def _is_present(self, task: _Task, made: list[Truth]) -> Truth:
        """Whether there is such a value, as `_make` has none where operands are cut."""
        value, change, without = task
        if change is None and self._reach[value] == without:
            return True
        truths = Truths(self._values)
        operands, others = made[: len(value.operands)], iter(made[len(value.operands) :])
        changing = [] if change is not None else self._changing(value, without)
        for number in changing:
            for position in self._changes[number].cut.get(value, ()):
                goes = self._goes(number, without)
                operands[position] = truths.where(goes, False, operands[position])
        result = truths.any(operands) if is_sum(value) else truths.all(operands)
        for number in changing:
            if value in self._changes[number].replaced:
                result = truths.where(self._goes(number, without), next(others), result)
        return result

    def _goes(self, number: int, without: int) -> Value:
        """Whether the step goes the way of a change."""
        conditions = (self._task(c, number, without) for c in self._conditions(number))
        return self._whole(number, [self._made.of(condition) for condition in conditions])

    def _whole(self, number: int, flags: Sequence[Value]) -> Value:
        assert self._told is not None
        return all_hold(self._values, flags, [answer for _, answer in self._told[number]])

    def _chosen(self, number: int, flags: Sequence[Value], other: Value, value: Value) -> Value:
        """`other` where the step goes the way of a change."""
        whole = self._whole(number, flags)
        return self._values.call(value, _aten.where.self, whole, other, value)

    def _task(self, value: Value, change: Optional[int], without: int) -> _Task:
        if change is not None:
            if value in self._changes[change].same:
                return self._task(self._changes[change].same[value], None, without)
            if value not in self._reach:
                return value, change, without
            without |= 1 << change
        return value, None, without & self._reach[value]

    def _changing(self, value: Value, without: int) -> list[int]:
        """The changes that have something in a value's place, or take summands out of it."""
        numbers = range(len(self._changes))
        return [k for k in numbers if not without >> k & 1 and self._changes[k].changes(value)]

    def _needs(self, task: _Task, decides: bool) -> list[_Task]:
        """What a task is made of: its operands, and for each change of it what the other way has in its
        place, behind what the step decides that by where `decides`."""
        value, change, without = task
        needs = [self._task(operand, change, without) for operand in value.operands]
        if change is not None:
            return needs
        if self._reach[value] == without:
            return []
        for number in self._changing(value, without):
            if decides:
                needs += [self._task(c, number, without) for c in self._conditions(number)]
            if value in self._changes[number].replaced:
                needs.append(self._task(self._changes[number].replaced[value], number, without))
        return needs

    def _make(self, task: _Task, made: list[Optional[Value]]) -> Optional[Value]:
        value, change, without = task
        if change is None and self._reach[value] == without:
            return value
        operands, rest = made[: len(value.operands)], iter(made[len(value.operands) :])
        others: list[tuple[int, list[Value], Optional[Value]]] = []
        for number in [] if change is not None else self._changing(value, without):
            flags = [next(rest) for _ in self._conditions(number)]
            for position in self._changes[number].cut.get(value, ()):
                operands[position] = self._without(number, flags, operands[position])
            if value in self._changes[number].replaced:
                others.append((number, flags, next(rest)))
        result = self._again(value, operands)
        for number, flags, other in others:
            result = other if self._told is None else self._chosen(number, flags, other, result)
        return result

    def _conditions(self, number: int) -> list[Value]:
        return [] if self._told is None else [condition for condition, _ in self._told[number]]

    def _without(
        self, number: int, flags: Sequence[Value], summand: Optional[Value]
    ) -> Optional[Value]:
        """A summand where the step does not go a change's way; None: there is none.

        What is added to -0.0 has the same bits.
        """
        if self._told is None or summand is None:
            return None
        return self._chosen(number, flags, self._values.number(summand, -0.0), summand)

    def _again(self, value: Value, operands: Sequence[Optional[Value]]) -> Optional[Value]:
        """The call of `value` with these operands; of a sum of gradients those that are there, and of
        what is no gradient there is none."""
        if None in operands:
            there = [operand for operand in operands if operand is not None]
            return there[0] if there and is_sum(value) else None
        remaining = iter(operands)
        return self._values.again(value, map_values(value.arguments, lambda _: next(remaining)))

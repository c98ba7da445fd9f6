"""Makes one program of a step's several ways."""

from __future__ import annotations

from typing import Any, Optional

import torch

from .values import Comparison, Expr, Pool

aten = torch.ops.aten


class Merger:
    """Expressions that are `yes` where a comparison holds, and `no` elsewhere.

    Calls of one operator are merged operand by operand, so that only what differs is selected:
    numbers by a number, tensors by `where`.
    """

    def __init__(self, pool: Pool, condition: Comparison) -> None:
        self.pool, self.condition = pool, condition
        self._merged: dict[tuple[int, int], Any] = {}

    def merge(self, yes: Any, no: Any) -> Any:
        key = (id(yes), id(no))
        if key not in self._merged:
            self._merged[key] = self._merge(yes, no)
        return self._merged[key]

    def _merge(self, yes: Expr, no: Expr) -> Expr:
        if yes is no:
            return no
        if yes.is_number != no.is_number:
            return self._merge(self._as_tensor(yes, no), self._as_tensor(no, yes))
        if no.op == yes.op == "item":
            return self.pool.make("item", self.merge(*yes.operands, *no.operands), where=no.where)
        if no.is_number:
            return self._number(yes, no)
        special = self._special(yes, no)
        if special is not None:
            return special
        if not _alike(yes, no):
            return self._where(yes, no)
        operands = [self._operand(a, b) for a, b in zip(yes.operands, no.operands)]
        selected = [x for x in operands if getattr(x, "callee", None) is aten.where.self]
        if len(set(selected) - set(no.operands)) > 1:
            return self._where(yes, no)
        return self.pool.like(no, *operands)

    def _operand(self, yes: Any, no: Any) -> Any:
        if isinstance(no, tuple):
            return tuple(self._operand(a, b) for a, b in zip(yes, no))
        # A constant may be a literal on one side.
        if isinstance(no, Expr) or isinstance(yes, Expr):
            yes, no = self._expr(yes), self._expr(no)
            merged = self.merge(yes, no)
            return merged.operands[0] if merged.op == "constant" else merged
        if type(no) in (int, float) and yes != no:
            return self.merge(self._expr(yes), self._expr(no))
        return no

    def _expr(self, value: Any) -> Expr:
        return value if isinstance(value, Expr) else self.pool.constant(value)

    def _as_tensor(self, value: Expr, like: Expr) -> Expr:
        if not value.is_number:
            return value
        return self.pool.make("fill", value, dtype=like.dtype, layout=like.layout)

    def _number(self, yes: Expr, no: Expr) -> Expr:
        op, a, b = self.condition
        return self.pool.number(op, a, b, yes, no)

    def _special(self, yes: Expr, no: Expr) -> Optional[Expr]:
        return None

    def _where(self, yes: Expr, no: Expr) -> Expr:
        number = self._number(self.pool.constant(1), self.pool.constant(0))
        held = self.pool.tensor_of(number, torch.float32)
        holds = self.pool.make("call", aten.ne.Scalar, held, 0, dtype=torch.bool, whole=False)
        return self.pool.make(
            "call", aten.where.self, holds, yes, no,
            dtype=no.dtype, whole=no.whole, layout=no.layout, where=no.where,
        )  # fmt: skip


class FirstMerger(Merger):
    """Merges what the first step does into what all later ones do.

    Mostly that is the same, for some first value of each state: the one that the first step makes
    it with.

    Attributes:
        initial: the first values of states, by name: numbers that may follow from learning rates.
        formers: those of states of one number; at first, what the optimizer has made them with.
    """

    def __init__(self, pool: Pool, formers: dict[str, Expr]) -> None:
        self.first = pool.constant(1)
        super().__init__(pool, ("select_equal", pool.make("step", 0), self.first))
        self.initial: dict[str, Expr] = {}
        self.formers = formers

    def _in_first(self, number: Expr) -> Expr:
        known = {self.pool.make("step", 0): self.first}
        known |= {self.pool.make("former", -1, name): x for name, x in self.formers.items()}
        return self.pool.substitute(number, known)

    def _number(self, yes: Expr, no: Expr) -> Expr:
        if no.op == "former":
            self.formers.setdefault(no.operands[1], yes)
        return no if self._in_first(no) is yes else super()._number(yes, no)

    def _special(self, yes: Expr, no: Expr) -> Optional[Expr]:
        if no.op == "input" and yes.op == "fill":
            name = no.operands[1]
            if self.initial.setdefault(name, yes.operands[0]) is yes.operands[0]:
                return no
        if no.callee is aten.where.self:
            held = no.operands[1].operands[1].operands[1]
            holds = self._in_first(held)
            if holds.op == "constant":
                place = 2 if holds.operands[0] else 3
                taken = self.merge(yes, no.operands[place])
                operands = [taken if i == place else x for i, x in enumerate(no.operands)]
                return self.pool.like(no, *operands)
        return self._momentum(yes, no)

    def _momentum(self, yes: Expr, no: Expr) -> Optional[Expr]:
        """`buffer * kept + x * share`, where the first step takes `x` itself.

        The buffer is 0 then, and 0 * -1 + x * 1 is x in every bit, also where x is -0.
        """
        if no.callee is not aten.add.Tensor or len(no.operands) < 4:
            return None  # a sum of numbers that tensors hold has no share
        _, decayed, added, share = no.operands
        if decayed.callee is not aten.mul.Scalar or decayed.operands[1].op != "input":
            return None
        _, buffer, kept = decayed.operands
        name, zero = buffer.operands[1], self.pool.constant(0)
        if self.merge(yes, added) is not added or self.initial.get(name, zero) is not zero:
            return None
        self.initial[name] = zero
        like = self.pool.like
        scaled = like(decayed, aten.mul.Scalar, buffer, self._operand(-1.0, kept))
        return like(no, aten.add.Tensor, scaled, added, self._operand(1.0, share))


def _alike(a: Expr, b: Expr) -> bool:
    """Whether they are calls of one operator that differ in numbers and tensors alone."""
    if a.op not in ("call", "calls", "result") or (a.op, *_kind(a)) != (b.op, *_kind(b)):
        return False
    if a.op == "result" and a.operands[0].op == "calls":
        # Several tensors cannot be selected at once: where their one operand is.
        calls = a.operands[0], b.operands[0]
        tensors = [x for x in calls[0].operands if isinstance(x, Expr) and not x.is_number]
        return a.operands[1] == b.operands[1] and _alike(*calls) and len(tensors) == 1
    return len(a.operands) == len(b.operands) and all(
        _mergeable(x, y) for x, y in zip(a.operands, b.operands)
    )


def _kind(x: Expr) -> tuple[Any, ...]:
    return x.dtype, x.whole, x.layout


def _mergeable(x: Any, y: Any) -> bool:
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(map(_mergeable, x, y))
    tensor = [isinstance(v, Expr) and not v.is_number for v in (x, y)]
    if any(tensor):
        return all(tensor) and _kind(x) == _kind(y)
    number = [isinstance(v, Expr) or type(v) in (int, float) for v in (x, y)]
    return all(number) if any(number) else x == y

"""What an optimizer's step computes, as expressions: numbers of the step, and tensors.

Expressions are interned: equal ones are one object, so that two traces of a step compare by
identity, and what is computed twice is computed once.
"""

from __future__ import annotations

import math
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence

import torch

aten = torch.ops.aten

# Operands of what numbers are computed with, in the archive's words.
NUMBER_OPS = {
    "add": 2,
    "subtract": 2,
    "multiply": 2,
    "divide": 2,
    "power": 2,
    "negate": 1,
    "sqrt": 1,
    "exp": 1,
    "log": 1,
    "cos": 1,
    "round": 1,  # to float32
    "select_equal": 4,  # a == b ? c : d
    "select_less": 4,
    "select_less_equal": 4,
}


# How they are computed of tensors without dimensions: each to the bits of Python's own.
_MEASURED = {
    "add": aten.add.Tensor,
    "subtract": aten.sub.Tensor,
    "multiply": aten.mul.Tensor,
    "divide": aten.div.Tensor,
    "power": aten.pow.Tensor_Tensor,
    "negate": aten.neg.default,
    "sqrt": aten.sqrt.default,
    "exp": aten.exp.default,
    "log": aten.log.default,
    "cos": aten.cos.default,
    "select": aten.where.self,
    "select_equal": aten.eq.Tensor,
    "select_less": aten.lt.Tensor,
    "select_less_equal": aten.le.Tensor,
}

# Shape and strides.
Layout = tuple[tuple[int, ...], tuple[int, ...]]


class Expr:
    """A number of the step, where `dtype` is None, or a tensor.

    Attributes:
        op: of a number `constant`, `hyperparameter`, `step`, `former`, `item` or one of NUMBER_OPS;
            of a tensor `input`, `fill`, `call`, `calls` or `result`.
        operands: expressions, lists of them, and constants. A `hyperparameter` has its parameter
            group and its name there (`schedule.Column`); `step` has what is added to the number
            of the step, 1 in the first; a `former` is a state of one number as the step before
            has left it, and has the parameter that it belongs to, and its name, as an `input` has;
            an `item` is what a tensor of float64 without dimensions holds;
            a `call` PyTorch's operator and its arguments by schema; `calls`, which give several
            tensors, have the dtype and layout of each before these; a `result` a call and its index.
        whole: whether a tensor has the parameter's shape; else it has no dimension.
        layout: of what is computed of whole tensors, its own shape and strides; else None.
        where: the optimizer's line.
        order: the later it was computed, the larger.
    """

    __slots__ = ("op", "operands", "dtype", "whole", "layout", "where", "order")

    def __init__(
        self,
        op: str,
        operands: tuple,
        dtype: Optional[torch.dtype],
        whole: bool,
        layout: Optional[Layout],
    ) -> None:
        self.op, self.operands = op, operands
        self.dtype, self.whole, self.layout = dtype, whole, layout
        self.where, self.order = "", 0

    @property
    def is_number(self) -> bool:
        return self.dtype is None

    @property
    def callee(self) -> Any:
        return self.operands[0] if self.op == "call" else None


# `select_less` and two numbers: whether one is less than the other.
Comparison = tuple[str, Expr, Expr]


def _key(value: Any) -> Any:
    if isinstance(value, Expr):
        return id(value)
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    if isinstance(value, float):
        return ("float", value.hex())
    return (type(value).__name__, value)


class Pool:
    """Makes expressions; each exists once."""

    def __init__(self) -> None:
        self._known: dict[Any, Expr] = {}
        self._rounded: dict[tuple[Expr, torch.dtype], Expr] = {}

    def make(
        self,
        op: str,
        *operands: Any,
        dtype: Optional[torch.dtype] = None,
        whole: bool = True,
        layout: Optional[Layout] = None,
        where: str = "",
    ) -> Expr:
        key = (op, dtype, whole, layout, _key(operands))
        if key not in self._known:
            self._known[key] = Expr(op, operands, dtype, whole, layout)
            self._known[key].where, self._known[key].order = where, len(self._known)
        return self._known[key]

    def like(self, old: Expr, *operands: Any) -> Expr:
        """`old` with other operands, in its place."""
        count = len(self._known)
        made = self.make(
            old.op, *operands,
            dtype=old.dtype, whole=old.whole, layout=old.layout, where=old.where,
        )  # fmt: skip
        if len(self._known) > count:
            made.order = old.order
        return made

    def constant(self, value: float) -> Expr:
        return self.make("constant", float(value))

    def number(self, op: str, *operands: Expr, where: str = "") -> Expr:
        """A number, computed now where its operands are constants, and by tensors where one of them
        is what a tensor holds."""
        if any(operand.op == "item" for operand in operands):
            return self._measured(op, operands, where)
        values = [x.operands[0] if x.op == "constant" else None for x in operands]
        if op.startswith("select_"):
            if None not in values[:2]:
                return operands[2] if holds_for(op, *values[:2]) else operands[3]
            if operands[2] is operands[3]:
                return operands[2]
        elif None not in values:
            return self.constant(_compute(op, values))
        # The count of a step is exact.
        if op in ("add", "subtract") and operands[0].op == "step":
            other = values[1] if op == "add" else values[1] and -values[1]
            if other is not None and float(other).is_integer():
                return self.make("step", operands[0].operands[0] + int(other))
        if op == "add" and operands[1].op == "step" and values[0] is not None:
            return self.number("add", operands[1], operands[0], where=where)
        return self.make(op, *operands, where=where)

    def remainder(self, count: Expr, period: int, where: str = "") -> Expr:
        """A count of steps modulo `period`, by binary long division: exact up to 2**40 steps."""
        if period == 1:
            return self.constant(0)
        rest = count
        for power in reversed(range(max(1, 41 - period.bit_length()))):
            part = self.constant(period << power)
            less = self.number("subtract", rest, part, where=where)
            rest = self.number("select_less", rest, part, rest, less, where=where)
        return rest

    def _measured(self, op: str, operands: Sequence[Expr], where: str) -> Expr:
        """A number that follows from what tensors hold: computed as Python does, in float64."""
        if op.startswith("select_") and operands[2] is operands[3]:
            return operands[2]
        tensors = [self.tensor_of(operand, torch.float64, where) for operand in operands]
        if op == "round":
            return self.item(self._cast(tensors[0], torch.float32, where), where)
        if op.startswith("select_"):
            holds = self.make(
                "call", _MEASURED[op], *tensors[:2], dtype=torch.bool, whole=False, where=where
            )
            tensors = [holds, *tensors[2:]]
            op = "select"
        made = self.make(
            "call", _MEASURED[op], *tensors, dtype=torch.float64, whole=False, where=where
        )
        return self.make("item", made, where=where)

    def item(self, tensor: Expr, where: str = "") -> Expr:
        """The number that a tensor without dimensions holds."""
        return self.make("item", self._cast(tensor, torch.float64, where), where=where)

    def tensor_of(self, number: Expr, dtype: torch.dtype, where: str = "") -> Expr:
        """A number as a tensor without dimensions."""
        if number.op == "item":
            return self._cast(number.operands[0], dtype, where)
        return self.make(
            "call", aten.scalar_tensor.default, number, dtype,
            dtype=dtype, whole=False, where=where,
        )  # fmt: skip

    def _cast(self, tensor: Expr, dtype: torch.dtype, where: str) -> Expr:
        if tensor.dtype == dtype:
            return tensor
        return self.make(
            "call", aten._to_copy.default, tensor, dtype, dtype=dtype, whole=False, where=where
        )

    def round(self, number: Expr, dtype: torch.dtype, where: str = "") -> Expr:
        """What a tensor of `dtype` without dimensions keeps of a number."""
        if dtype == torch.float64 or number.op in ("step", "round"):
            return number
        if number.op == "constant":
            if (number, dtype) not in self._rounded:
                kept = torch.tensor(number.operands[0], dtype=torch.float64).to(dtype)
                self._rounded[number, dtype] = self.constant(kept.item())
            return self._rounded[number, dtype]
        return self.number("round", number, where=where)

    def substitute(self, number: Expr, values: Mapping[Expr, Expr]) -> Expr:
        """`number` with others in place of some that it follows from."""
        known = dict(values)
        count = known.get(self.make("step", 0))

        def replaced(number: Expr) -> Expr:
            if number not in known:
                known[number] = made(number)
            return known[number]

        def made(number: Expr) -> Expr:
            if number.op == "step" and count is not None:
                return self.number("add", count, self.constant(number.operands[0]))
            if number.op not in NUMBER_OPS:
                return number
            return self.number(number.op, *map(replaced, number.operands), where=number.where)

        return replaced(number)


def reached(results: Iterable[Any]) -> Iterator[Expr]:
    """All that `results` follow from, and these."""
    left, seen = list(results), set()
    while left:
        value = left.pop()
        if isinstance(value, tuple):
            left += value
        elif isinstance(value, Expr) and id(value) not in seen:
            seen.add(id(value))
            left += value.operands
            yield value


def owners_of(value: Expr) -> set[int]:
    """The parameters whose tensors `value` follows from."""
    return {x.operands[0] for x in reached([value]) if x.op == "input"}


def holds_for(op: str, a: float, b: float) -> bool:
    """Whether a comparison by the name of its select holds."""
    return {"select_equal": a == b, "select_less": a < b, "select_less_equal": a <= b}[op]


def _compute(op: str, values: list[float]) -> float:
    """In double, as C++ does: what Python refuses is infinite or no number."""
    a, b = (values + [0.0])[:2]
    try:
        if op == "divide":
            return a / b
        if op == "power":
            return math.pow(a, b)
        if op in ("sqrt", "exp", "log", "cos"):
            return getattr(math, op)(a)
    except ZeroDivisionError:
        nan = a == 0 or math.isnan(a)
        return math.nan if nan else math.copysign(math.inf, a) * math.copysign(1.0, b)
    except OverflowError:
        return math.inf
    except ValueError:
        infinite = {"power": math.inf, "log": -math.inf}
        return infinite.get(op, math.nan) if a == 0 else math.nan
    if op == "round":
        return torch.tensor(a, dtype=torch.float64).float().item()
    return {"add": a + b, "subtract": a - b, "multiply": a * b, "negate": -a}[op]

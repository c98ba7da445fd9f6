"""Numbers that change between steps, as Python and PyTorch meet them in an optimizer's step.

They stand for floats and have no value, so that none can become a constant unseen.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from typing import Any, Callable, NoReturn, Protocol

import torch

from .. import package
from ..step.places import PYTORCH, innermost, is_pythons, line_of
from ..step.source import syntax_of
from .values import Comparison, Expr

_OPTIM = os.path.join(PYTORCH, "optim")
_HELPERS = os.path.join(_OPTIM, "optimizer.py")


class Followed(Protocol):
    """The way through a step that a number is on."""

    def fail(self, what: str) -> NoReturn: ...
    def number(self, value: Any) -> Expr: ...
    def compute(self, op: str, *operands: Any) -> Any: ...
    def by_period(self, op: str, number: Any, period: Any) -> Any: ...
    def decide(self, key: Comparison) -> bool: ...


def current_line() -> str:
    """`adam.py:412`: the innermost line that is the optimizer's, not PyTorch's or ours."""
    return line_of(innermost(sys._getframe(1), is_optimizers))


def is_optimizers(path: str) -> bool:
    """Whether a Python file may have an optimizer's step."""
    if path.startswith((package.FOLDER, "<")) or path == _HELPERS:
        return False
    return path.startswith(_OPTIM) or not (path.startswith(PYTORCH) or is_pythons(path))


def catches_zero_division() -> bool:
    """Whether the optimizer computes now where it has a handler for divisions by zero."""
    frame = innermost(sys._getframe(1), is_optimizers)
    while frame is not None and not frame.f_code.co_filename.startswith(package.FOLDER):
        guarded = _guarded_lines(frame.f_code.co_filename)
        if any(frame.f_lineno in lines for lines in guarded):
            return True
        frame = frame.f_back
    return False


@functools.cache
def _guarded_lines(path: str) -> tuple[range, ...]:
    """The lines of a Python file where a division by zero is handled."""
    return tuple(
        range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1)
        for node in ast.walk(syntax_of(path))
        if isinstance(node, ast.Try) and any(map(_handles_zero_division, node.handlers))
    )


def _handles_zero_division(handler: ast.ExceptHandler) -> bool:
    names = (
        {x.id for x in ast.walk(handler.type) if isinstance(x, ast.Name)} if handler.type else {}
    )
    errors = {"ZeroDivisionError", "ArithmeticError", "Exception", "BaseException"}
    return handler.type is None or bool(errors & {*names})


class _Node:
    """What PyTorch asks a number without a value."""

    def __init__(self, number: Number) -> None:
        self.number = number

    def is_float(self) -> bool:
        return True

    def is_symbolic(self) -> bool:
        return True

    def _false(self) -> bool:
        return False

    is_int = is_bool = is_nested_int = is_constant = has_hint = _false

    def _none(self) -> None:
        return None

    constant_float = constant_int = constant_bool = maybe_as_int = maybe_as_float = _none

    def guard_float(self, file: str, line: int) -> NoReturn:
        self.number.trace.fail(
            "needs the value of a number that changes between steps, as float(), int() and range() do; "
            "compute with it as it is, which is a float"
        )

    guard_int = guard_float

    def guard_bool(self, file: str, line: int) -> bool:
        return bool(self.number)

    def _graph_repr(self) -> str:
        return "a number of the step"

    str = _graph_repr


class Number(torch.SymFloat):
    """A number that changes between steps: PyTorch takes it where it takes a float."""

    def __init__(self, trace: Followed, value: Expr) -> None:
        super().__init__(_Node(self))
        self.trace, self.value = trace, value

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return "a number of the step"

    def __neg__(self) -> Any:
        return self.trace.compute("negate", self)

    def __pos__(self) -> Number:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __int__(self) -> NoReturn:
        self.node.guard_int("", 0)

    __float__ = __index__ = __trunc__ = __floor__ = __ceil__ = __round__ = __int__


def _binary(op: str, swapped: bool) -> Callable[[Number, Any], Any]:
    def compute(self: Number, other: Any) -> Any:
        if isinstance(other, torch.Tensor):
            return NotImplemented
        return self.trace.compute(op, *((other, self) if swapped else (self, other)))

    return compute


def _comparison(op: str, swapped: bool, negated: bool) -> Callable[[Number, Any], Any]:
    def compare(self: Number, other: Any) -> Any:
        if isinstance(other, torch.Tensor):
            return NotImplemented
        if not isinstance(other, (int, float, torch.SymFloat)):
            return negated
        a, b = (other, self) if swapped else (self, other)
        return Condition(self.trace, op, self.trace.number(a), self.trace.number(b), negated)

    return compare


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(self: Number, *_: Any) -> NoReturn:
        self.trace.fail(f"computes {name.strip('_')} of a number that changes between steps")

    return refuse


def _by_period(op: str) -> Callable[[Number, Any], Any]:
    return lambda self, period: self.trace.by_period(op, self, period)


for _name, _op in (
    ("add", "add"),
    ("sub", "subtract"),
    ("mul", "multiply"),
    ("truediv", "divide"),
    ("pow", "power"),
):
    setattr(Number, f"__{_name}__", _binary(_op, swapped=False))
    setattr(Number, f"__r{_name}__", _binary(_op, swapped=True))
for _name in ("mod", "floordiv"):
    setattr(Number, f"__{_name}__", _by_period(_name))
for _name in ("divmod", "rfloordiv", "rmod", "rdivmod", "is_integer"):
    setattr(Number, _name if _name == "is_integer" else f"__{_name}__", _refuse(_name))
for _name, _args in {
    "eq": ("select_equal", False, False),
    "ne": ("select_equal", False, True),
    "lt": ("select_less", False, False),
    "gt": ("select_less", True, False),
    "le": ("select_less_equal", False, False),
    "ge": ("select_less_equal", True, False),
}.items():
    setattr(Number, f"__{_name}__", _comparison(*_args))


class Condition:
    """A comparison of numbers; Python branches on it."""

    def __init__(self, trace: Followed, op: str, a: Expr, b: Expr, negated: bool = False) -> None:
        self.trace, self.key, self.negated = trace, (op, a, b), negated

    def __bool__(self) -> bool:
        return self.trace.decide(self.key) != self.negated


def plain_number(value: Any) -> Any:
    """A tensor of one element as a Python number; all else as it is."""
    one = isinstance(value, torch.Tensor) and value.numel() == 1
    return float(value.item()) if one else value


def same_value(a: Any, b: Any) -> bool:
    """Whether two values are of one type and equal; what cannot be compared is not."""
    if isinstance(a, Number) and isinstance(b, Number):
        return a.value is b.value
    try:
        return a is b or (type(a) is type(b) and bool(a == b))
    except Exception:
        return False

"""Checks of values that code makes before it computes: `if (variance < 0).any(): raise ...`.

A plan does not look at values, so that a check whose only effect is an error passes while the step
is captured, and a note says so. One whose only effect is a clamp of what is not finite, as models of
Hugging Face have, is always clamped: to bounds that finite values are within.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import os
import re
import sys
from types import FrameType
from typing import Any, Callable, Collection, Iterator, Optional
from unittest import mock

import torch
from torch._numpy import _ndarray
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._python_dispatch import TorchDispatchMode

from ... import package
from ...step.places import in_short, innermost, is_users
from ...step.source import conditions_at, is_answered_at
from ..graph.tensors_of_others import OthersKeepTheirData
from . import drawn_by_torch, draws, numpy_generators, python_floats
from .assignments import assignments_of_tensors
from .constructors import constructors_of_arrays
from .copied_tensors import TensorsCopied
from .decisions import answer_of, run_with_answers
from .drawn_ranges import DrawnRanges
from .int_and_float import int_and_float
from .kinds import kinds_of_numbers
from .moved_modules import modules_stay
from .numpy_arrays import arrays_of_tensors
from .python_floats import as_number, functions_of_math
from .python_numbers import (
    NoListsOfCounts,
    as_count,
    as_symbol,
    larger_and_smaller,
    symbols_as_numbers,
)
from .ranges import ranges_as_places
from .selected_rows import SelectedRows
from .tensor_sizes import TensorSizes
from .unbound_views import UnbindSelects

# Who calls the step.
_STEP = os.path.join(package.FOLDER, "capture", "step_loss.py")
# Files whose code asks for the code that it is in.
_ASK_FOR_OTHERS = (
    python_floats.__file__,
    draws.__file__,
    drawn_by_torch.__file__,
    numpy_generators.__file__,
    _ndarray.__file__,
)

Place = tuple[str, int]  # a file, and a line


def in_place_of(tensor: torch.Tensor, number: float) -> Any:
    """`number` as Python reads one from a tensor of that dtype."""
    return torch.full((), number, dtype=torch.float64).to(tensor.dtype).item()


class AnyNumber(TorchDispatchMode):
    """Within it, who reads a number from a tensor without values gets some number."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return in_place_of(args[0], 0.5)
        return func(*args, **(kwargs or {}))


def passing_now() -> Optional[bool]:
    """What the condition that the code asks for now, within `passed_checks`, is where the check
    passes, or None: no check."""
    frame = innermost(sys._getframe(1), lambda path: path == __file__)
    # Behind the modes that it asks through.
    frame = innermost(frame, lambda path: not path.startswith(package.FOLDER))
    return None if frame is None else _passing(frame)


@contextlib.contextmanager
def passed_checks(whole_numbers: bool = False, states: Collection[int] = ()) -> Iterator[list[str]]:
    """Within it, checks of values pass, and numbers are read as tensors, or `whole_numbers` as
    symbols; gives the list of where the checks are, as `file.py:31`. `states` are those of
    `TensorsCopied`."""
    places: list[str] = []
    with contextlib.ExitStack() as stack:
        # `if check.any()`, and `if check.any().item()`.
        for kind, name in itertools.product((torch.Tensor, FunctionalTensor), ("__bool__", "item")):
            condition = _passing_condition(getattr(kind, name), places, whole_numbers)
            stack.enter_context(mock.patch.object(kind, name, condition))
        for owner, name in itertools.product((torch, torch.Tensor), _COMPARE):
            comparison = _passing_comparison(getattr(owner, name), _COMPARE[name], places)
            stack.enter_context(mock.patch.object(owner, name, comparison))
        stack.enter_context(larger_and_smaller())
        stack.enter_context(functions_of_math())
        stack.enter_context(arrays_of_tensors())
        stack.enter_context(constructors_of_arrays())
        stack.enter_context(drawn_by_torch.drawn_by_torch())
        stack.enter_context(assignments_of_tensors())
        stack.enter_context(modules_stay())
        stack.enter_context(TensorsCopied(states))
        stack.enter_context(UnbindSelects())
        stack.enter_context(OthersKeepTheirData())
        stack.enter_context(kinds_of_numbers())
        stack.enter_context(ranges_as_places())
        if whole_numbers:
            stack.enter_context(SelectedRows())
            stack.enter_context(TensorSizes())
            stack.enter_context(int_and_float())
            stack.enter_context(DrawnRanges())
        stack.enter_context(symbols_as_numbers() if whole_numbers else NoListsOfCounts())
        stack.enter_context(run_with_answers())
        yield places


def _passing_condition(
    original: Callable[[Any], bool], places: list[str], whole_numbers: bool
) -> Callable[[Any], bool]:
    @functools.wraps(original)
    def condition(tensor: Any) -> Any:
        try:
            return original(tensor)
        except DataDependentOutputException:
            frame: Any = innermost(sys._getframe(1), lambda path: path not in _ASK_FOR_OTHERS)
            number: Any = None
            if original.__name__ != "item" or tensor.dtype == torch.bool:
                number = _truth(tensor, frame, places)
            elif _is_users(frame):
                number = as_symbol(tensor) if whole_numbers else as_count(tensor)
                number = as_number(tensor) if number is None else number
            if number is None:
                raise
            return number

    return condition


def _passing_comparison(
    original: Callable[..., bool], compare: Callable[..., Any], places: list[str]
) -> Callable[..., bool]:
    """`original`, which compares tensors as a whole; where it cannot tell, a condition is asked for what
    `compare` gives."""

    @functools.wraps(original)
    def comparison(one: torch.Tensor, other: torch.Tensor, *args: Any, **kwargs: Any) -> bool:
        try:
            return original(one, other, *args, **kwargs)
        except DataDependentOutputException:
            alike = compare(one, other, *args, **kwargs)
            is_known = isinstance(alike, bool)  # by the shapes
            truth = alike if is_known else _truth(alike, sys._getframe(1), places)
            if truth is None:
                raise
            return truth

    return comparison


def _all_equal(one: torch.Tensor, other: torch.Tensor) -> Any:
    return one.shape == other.shape and (one == other).all()


def _all_close(*args: Any, **kwargs: Any) -> torch.Tensor:
    return torch.isclose(*args, **kwargs).all()


_COMPARE = {"equal": _all_equal, "allclose": _all_close}


def _truth(tensor: torch.Tensor, frame: Any, places: list[str]) -> Optional[bool]:
    """What a condition that `frame` asks for is: where it is a check that it passes, whose place is added
    to `places`, else the answer that somebody gives, or None."""
    passes = _passing(frame)
    if passes is None:
        return answer_of(tensor, frame)
    frame = innermost(frame, lambda path: path != torch.__file__)
    path, line = frame.f_code.co_filename, frame.f_lineno
    place = in_short(path, line)
    if place not in places and not _is_clamp(_check_at(path, line)):
        places.append(place)
    return passes


def _is_users(frame: FrameType) -> bool:
    return is_users(frame.f_code.co_filename)


def _passing(frame: FrameType) -> Optional[bool]:
    """What the condition that `frame` asks for is where the check passes, or None: no check."""
    if frame.f_code is torch._check_tensor_all_with.__code__:
        return True
    return passing_at(places_of(frame))


def places_of(frame: Optional[FrameType]) -> Iterator[Place]:
    """Where a frame is, and those in the step that have led to it."""
    while frame is not None and frame.f_code.co_filename != _STEP:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def passing_at(places: Iterator[Place]) -> Optional[bool]:
    """What a condition is where the check passes, or None: no check. It is none where the step goes on
    behind its error.

    Args:
        places: its own, and those from which its code is called.
    """
    place = next(places)
    check = _check_at(*place)
    if check is None:
        return None
    if _is_clamp(check):
        return _needed(check.test, True)
    error = _error_of(check)
    if any(is_users(p) and is_answered_at(p, n, error) for p, n in (place, *places)):
        return None
    return _needed(check.test, isinstance(check, ast.Assert))


def _error_of(check: Any) -> str:
    """The name of the error that a check raises."""
    last = check.body[-1] if isinstance(check, ast.If) else check
    if not isinstance(last, ast.Raise):
        return AssertionError.__name__
    error = last.exc.func if isinstance(last.exc, ast.Call) else last.exc
    return "" if error is None else ast.unparse(error).rpartition(".")[2]


def _check_at(path: str, line: int) -> Any:
    """The check whose condition is on a line of a file, or None."""
    return next(filter(_is_check, conditions_at(path, line)), None)


def _is_check(node: Any) -> bool:
    """Whether it is an assertion, or an `if` that does nothing but raise, or clamp what is not finite."""
    if isinstance(node, ast.If):
        return _only_raises(node.body) or _is_clamp(node)
    return isinstance(node, ast.Assert)


_NOT_FINITE = re.compile(r"(not torch\.isfinite\((\w+)\)\.all|torch\.isinf\((\w+)\)\.any)\(\)")
_CLAMPED = re.compile(
    r"(?P<bound>\w+) = torch\.finfo\((?P<x>\w+)\.dtype\)\.max - 1000\n"
    r"(?P=x) = torch\.clamp\((?P=x), min=-(?P=bound), max=(?P=bound)\)"
)


def _is_clamp(node: Any) -> bool:
    """Whether it is `if not torch.isfinite(x).all():`, and clamps `x` to what its dtype has."""
    if not isinstance(node, ast.If) or node.orelse:
        return False
    asked = _NOT_FINITE.fullmatch(ast.unparse(node.test))
    clamped = _CLAMPED.fullmatch("\n".join(map(ast.unparse, node.body)))
    return bool(asked and clamped) and clamped["x"] in asked.groups()


def _only_raises(body: list[ast.stmt]) -> bool:
    *before, last = body
    return _raises(last) and all(isinstance(s, (ast.Assign, ast.AnnAssign)) for s in before)


def _raises(statement: ast.stmt) -> bool:
    """Whether it is `raise ...`, `assert False, ...` or `torch._assert(False, ...)`."""
    if isinstance(statement, ast.Assert):
        condition = statement.test
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        if ast.unparse(statement.value.func) != "torch._assert" or not statement.value.args:
            return False
        condition = statement.value.args[0]
    else:
        return isinstance(statement, ast.Raise)
    return isinstance(condition, ast.Constant) and condition.value is False


def _needed(test: ast.expr, wanted: bool) -> Optional[bool]:
    """What the values in `test` must be for it to be `wanted`; None: not the same for all."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _needed(test.operand, not wanted)
    if isinstance(test, ast.BoolOp):
        needed = {_needed(value, wanted) for value in test.values}
        return needed.pop() if len(needed) == 1 else None
    return wanted

"""Checks of values that code makes before it computes: `if (variance < 0).any(): raise ...`.

A plan does not look at values, so that a check whose only effect is an error passes while the step
is captured, and a note says so.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import linecache
import os
import sys
from types import FrameType
from typing import Any, Callable, Iterator, Optional
from unittest import mock

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch._subclasses.functional_tensor import FunctionalTensor


@contextlib.contextmanager
def passed_checks() -> Iterator[list[str]]:
    """Within it, checks of values pass; gives the list of where they are, as `file.py:31`."""
    places: list[str] = []
    with contextlib.ExitStack() as stack:
        # `if check.any()`, and `if check.any().item()`.
        for kind, name in itertools.product((torch.Tensor, FunctionalTensor), ("__bool__", "item")):
            condition = _passing_condition(getattr(kind, name), places)
            stack.enter_context(mock.patch.object(kind, name, condition))
        yield places


def _passing_condition(original: Callable[[Any], bool], places: list[str]) -> Callable[[Any], bool]:
    def condition(tensor: Any) -> bool:
        try:
            return original(tensor)
        except DataDependentOutputException:
            frame: Any = sys._getframe(1)
            is_item = original.__name__ == "item"
            passes = None if is_item and tensor.dtype != torch.bool else _passing(frame)
            if passes is None:
                raise
            while frame.f_code.co_filename == torch.__file__:
                frame = frame.f_back
            place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
            if place not in places:
                places.append(place)
            return passes

    return condition


def _passing(frame: FrameType) -> Optional[bool]:
    """What the condition that `frame` asks for is where the check passes, or None: no check."""
    if frame.f_code is torch._check_tensor_all_with.__code__:
        return True
    return passing_at(frame.f_code.co_filename, frame.f_lineno)


def passing_at(path: str, line: int) -> Optional[bool]:
    """What the condition on a line of a file is where the check passes, or None: no check."""
    for node in _conditions(path):
        if node.test.lineno <= line <= (node.test.end_lineno or node.test.lineno):
            return _needed(node.test, isinstance(node, ast.Assert))
    return None


@functools.lru_cache(maxsize=64)
def _conditions(path: str) -> list[Any]:
    """Assertions of a file, and each `if` that does nothing but raise."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return []
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) or isinstance(node, ast.If) and _only_raises(node.body)
    ]


def _only_raises(body: list[ast.stmt]) -> bool:
    *before, last = body
    return isinstance(last, ast.Raise) and all(isinstance(s, ast.Assign) for s in before)


def _needed(test: ast.expr, wanted: bool) -> Optional[bool]:
    """What the values in `test` must be for it to be `wanted`; None: not the same for all."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _needed(test.operand, not wanted)
    if isinstance(test, ast.BoolOp):
        needed = {_needed(value, wanted) for value in test.values}
        return needed.pop() if len(needed) == 1 else None
    return wanted

"""Counts that code reads from a tensor and computes with: `n = mask.sum().item()`, `max(1, n)`.

No Python runs while a plan does, so that such a count is a tensor without dimensions. Code that
branches on it, or needs it as a size, is refused where it does so. `python_floats` has the numbers
with a fraction.
"""

from __future__ import annotations

import builtins
import contextlib
import operator
import sys
from typing import Any, Callable, Iterator, Optional
from unittest import mock

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from ..step.places import is_users
from .python_floats import ReadNumber

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def as_count(tensor: torch.Tensor) -> Optional[torch.Tensor]:
    """What `tensor.item()` is where the value is not known; None: no count."""
    if tensor.numel() != 1 or tensor.dtype not in _INTEGERS:
        return None
    return tensor.to(torch.int64).reshape(())


@contextlib.contextmanager
def larger_and_smaller() -> Iterator[None]:
    """Within it, `max(a, b)` and `min(a, b)` of the user's code choose among such counts, tensors
    without dimensions, and sizes that depend on values."""
    with contextlib.ExitStack() as stack:
        for name, of_sizes, first in (
            ("max", torch.sym_max, operator.gt),
            ("min", torch.sym_min, operator.lt),
        ):
            chosen = _choosing(getattr(builtins, name), of_sizes, first)
            stack.enter_context(mock.patch.object(builtins, name, chosen))
        yield


def _choosing(
    original: Callable[..., Any], of_sizes: Callable[..., Any], first: Callable[..., Any]
) -> Callable[..., Any]:
    def choice(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except (DataDependentOutputException, GuardOnDataDependentSymNode):
            if len(args) != 2 or kwargs or not is_users(sys._getframe(1).f_code.co_filename):
                raise
            one, other = args
            if any(isinstance(value, ReadNumber) for value in args):
                # Of equal ones the first, and of NaN: as Python.
                return ReadNumber.chosen(first(other, one), other, one)
            if any(isinstance(value, torch.Tensor) for value in args):
                return torch.where(first(other, one), other, one)  # as Python, with NaN too
            return of_sizes(one, other)

    return choice

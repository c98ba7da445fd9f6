"""`int(tensor)` and `float(tensor)` of a tensor whose value is not known, in the user's own files and in
those of libraries that ask for one."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from typing import Any, Callable, Iterator, Optional
from unittest import mock

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch._subclasses.functional_tensor import FunctionalTensor

from ...step.places import is_pythons, is_users
from .kinds import has_numbers, own_modules
from .numpy_arrays import held
from .python_floats import ReadNumber, as_number, read_value
from .python_numbers import as_symbol


def _as_whole(value: Any) -> Any:
    """What `int(value)` is of a tensor or an array, or of a number that is one; None: of nothing such."""
    value = held(value)
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() == 1:
        value = as_number(value)
    return math.trunc(value) if isinstance(value, ReadNumber) else as_symbol(value)


def _as_float(value: Any) -> Optional[ReadNumber]:
    """What `float(value)` is of a tensor, an array, or such a number; None: of nothing such."""
    value = held(read_value(value))
    if not isinstance(value, torch.Tensor) or value.numel() != 1 or value.dtype.is_complex:
        return None
    return as_number(value.to(torch.float64))


class ReadByLibrary(DataDependentOutputException):
    """A library's module has read its first number, by `int` or `float`: whoever runs the step again has
    them followed there too."""


def _noting(original: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    """`Tensor.__int__` and the like, which notes whose code asks for a value that is not known."""

    @functools.wraps(original)
    def number(tensor: torch.Tensor) -> Any:
        try:
            return original(tensor)
        except DataDependentOutputException as error:
            frame = sys._getframe(1)
            path = frame.f_code.co_filename
            if is_users(path) and not is_pythons(path) and has_numbers(frame.f_globals):
                raise ReadByLibrary(error.func) from error
            raise

    return number


class _AskingTensors(type):
    """Of a class that stands in for `int` or `float`: equal to it but for what it makes of a tensor
    whose value is not known."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__base__)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.__base__)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            return cls.__base__(*args, **kwargs)
        except DataDependentOutputException:
            number = cls.read(args[0])
            if number is None:
                raise
            return number


class _Int(int, metaclass=_AskingTensors):
    read = staticmethod(_as_whole)


class _Float(float, metaclass=_AskingTensors):
    read = staticmethod(_as_float)


@contextlib.contextmanager
def int_and_float() -> Iterator[None]:
    """Within it, they are numbers of the graph.

    Raises:
        ReadByLibrary: another module has asked.
    """
    with contextlib.ExitStack() as stack:
        for module in own_modules():
            for name, kind in (("int", _Int), ("float", _Float)):
                if name not in vars(module):
                    stack.enter_context(mock.patch.object(module, name, kind, create=True))
        for tensors in (torch.Tensor, FunctionalTensor):
            for name in ("__int__", "__float__"):
                noting = _noting(getattr(tensors, name))
                stack.enter_context(mock.patch.object(tensors, name, noting))
        yield

"""Arrays of random numbers that a step draws from NumPy: `torch._numpy`'s, which compute by torch what
NumPy does. Their numbers are others than eager's in any case, so that their last bits may be too.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterator
from unittest import mock

import numpy
import torch
from torch import _numpy as by_torch
from torch._numpy import _dtypes
from torch._numpy._normalizations import normalizers
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from .numpy_arrays import held, no_array
from .python_floats import ReadNumber, read_value

Array = by_torch.ndarray


def numbers_of(value: Any) -> torch.Tensor:
    """The tensor of a number, an array, or a list of such, as NumPy makes an array of it."""
    value = held(read_value(value))
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, torch.SymInt):
        return torch.scalar_tensor(value, dtype=torch.int64)
    if isinstance(value, (list, tuple)) and not all(type(n) in (int, float) for n in value):
        return torch.stack([numbers_of(member) for member in value])
    return torch.as_tensor(numpy.asarray(value))


def _computed(name: str, args: Any, kwargs: Any) -> Any:
    function = getattr(by_torch, name, None)
    if function is None:
        raise no_array()
    return function(*args, **kwargs)


def _of_ufunc(array: Any, function: Any, method: str, *values: Any, **options: Any) -> Any:
    if method != "__call__":
        raise no_array()
    return _computed(function.__name__, values, options)


def _of_function(array: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    return _computed(function.__name__, args, kwargs)


def _as_numpys(array: Any, *args: Any, **kwargs: Any) -> Any:
    """The true array, for which NumPy asks where one is indexed by this; nobody knows it of a step that
    is captured."""
    if isinstance(array.tensor, (FakeTensor, FunctionalTensor)):
        raise no_array()
    return numpy.asarray(array.tensor.numpy(), *args)


def _of_dtypes(original: Callable[..., None]) -> Callable[..., None]:
    """How a dtype is made, of NumPy's own too."""

    @functools.wraps(original)
    def init(self: Any, arg: Any) -> None:
        is_numpys = isinstance(arg, type) and issubclass(arg, numpy.generic)
        original(self, numpy.dtype(arg).name if is_numpys or isinstance(arg, numpy.dtype) else arg)

    return init


def _of_numbers(original: Callable[..., Any]) -> Callable[..., Any]:
    """How operands become tensors, numbers of NumPy's and those that are read among them."""

    @functools.wraps(original)
    def normalize(value: Any, *parameter: Any) -> Any:
        is_number = isinstance(value, (ReadNumber, numpy.generic))
        return numbers_of(value) if is_number else original(value, *parameter)

    return normalize


_BINARY = [
    f"__{side}{name}__"
    for name in "add sub mul truediv floordiv mod pow matmul and or xor".split()
    for side in ("", "r")
] + [f"__{name}__" for name in "lt le gt ge eq ne".split()]


def _of_tensors(name: str) -> Callable[..., Any]:
    """An operator of arrays, which gives a tensor where the other operand is one, as of NumPy's."""
    original, of_torch = getattr(Array, name), getattr(torch.Tensor, name)

    @functools.wraps(original)
    def method(array: Any, other: Any) -> Any:
        is_tensor = isinstance(other, torch.Tensor)
        return of_torch(array.tensor, other) if is_tensor else original(array, other)

    return method


@contextlib.contextmanager
def arrays_by_torch() -> Iterator[None]:
    """Within it, NumPy's functions and numbers take such an array, and it takes NumPy's dtypes."""
    operands = {name: _of_numbers(normalizers[name]) for name in ("ArrayLike", "ArrayLikeOrScalar")}
    with contextlib.ExitStack() as stack:
        for name, what in (
            ("__array_ufunc__", _of_ufunc),
            ("__array_function__", _of_function),
            ("__array__", _as_numpys),
            *((name, _of_tensors(name)) for name in _BINARY),
        ):
            stack.enter_context(mock.patch.object(Array, name, what, create=True))
        init = _of_dtypes(_dtypes.DType.__init__)
        stack.enter_context(mock.patch.object(_dtypes.DType, "__init__", init))
        stack.enter_context(mock.patch.dict(normalizers, operands))
        yield

"""Arrays of NumPy that a step makes of tensors whose values are not known, and of which PyTorch makes
tensors again: `pack_padded_sequence(x, lengths.cpu().numpy())`, which reads an array as it reads a list.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterator, NoReturn, Optional
from unittest import mock

import numpy as np
import torch
from torch._numpy import ndarray
from torch.overrides import TorchFunctionMode

from .call_arguments import places_of

OF_DATA = (torch.tensor, torch.as_tensor)
ITEMS = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
# What PyTorch says where it has no array.
_NO_ARRAY = ".numpy() is not supported for tensor subclasses."
_USES = """abs add and array bool complex contains eq float floordiv ge getitem gt iadd iand ifloordiv imul
index int invert ior isub iter itruediv le lt matmul mod mul ne neg or pos pow radd rand rfloordiv
rmatmul rmod rmul ror rpow rsub rtruediv rxor setitem sub truediv xor""".split()


def no_array() -> RuntimeError:
    """What is raised where code needs an array's values."""
    return RuntimeError(_NO_ARRAY)


class ArrayOf:
    """Stands for the array of `tensor`, also where code asks whether it is one. Whoever does anything
    else with it than to make a tensor of it gets an error, as where there were none."""

    __class__ = property(lambda self: np.ndarray)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.__dict__.update(tensor=tensor, error=no_array())

    def __len__(self) -> int:
        return len(self.tensor)

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse()

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        self._refuse()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise self.__dict__["error"]


for _use in _USES:
    setattr(ArrayOf, f"__{_use}__", ArrayOf._refuse)


def held(value: Any) -> Any:
    """The tensor of such an array, or of one of `torch._numpy`'s, and any other value as it is."""
    return value.tensor if isinstance(value, (ArrayOf, ndarray)) else value


def unknown(value: Any) -> Optional[torch.Tensor]:
    """The tensor whose values nobody knows yet, where NumPy would take `value` for an array of them;
    None: NumPy knows them, or says what is wrong."""
    if isinstance(value, torch.Tensor) and not value.requires_grad:
        value = value.numpy()
    return value.tensor if isinstance(value, ArrayOf) else None


class _TensorsOfArrays(TorchFunctionMode):
    """Within it, PyTorch makes a tensor again of such an array."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in OF_DATA and held(args[0]) is not args[0]:
            return held(args[0]).clone().to((kwargs or {}).get("dtype"))
        if func in ITEMS:
            args = args[0], tuple(map(held, places_of(args[1]))), *map(held, args[2:])
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def arrays_of_tensors() -> Iterator[None]:
    """Within it, `tensor.numpy()` gives such an array where the tensor's values are not known."""
    to_array, to_tensor = _array_of(torch.Tensor.numpy), _tensor_of(torch.from_numpy)
    with (
        mock.patch.object(torch.Tensor, "numpy", to_array),
        mock.patch.object(torch.Tensor, "__array__", _true_array_of(torch.Tensor.__array__)),
        mock.patch.object(torch, "from_numpy", to_tensor),
        _TensorsOfArrays(),
    ):
        yield


def _array_of(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def numpy(tensor: torch.Tensor, **options: Any) -> Any:
        try:
            return original(tensor, **options)
        except RuntimeError as error:
            if str(error) != _NO_ARRAY or tensor.requires_grad:
                raise
            return ArrayOf(tensor)

    return numpy


def _true_array_of(original: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy itself asks for it, as in `np.asarray(tensor)`, and takes nothing but a true array."""

    @functools.wraps(original)
    def array_of(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        array = original(tensor, *args, **kwargs)
        return array._refuse() if isinstance(array, ArrayOf) else array

    return array_of


def _tensor_of(original: Callable[[Any], torch.Tensor]) -> Callable[[Any], torch.Tensor]:
    @functools.wraps(original)
    def from_numpy(array: Any) -> torch.Tensor:
        tensor = held(array)
        return original(array) if tensor is array else tensor.detach()

    return from_numpy

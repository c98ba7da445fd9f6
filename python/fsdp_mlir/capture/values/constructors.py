"""`torch.FloatTensor(array)`, `torch.Tensor([n])` and their like, of arrays and numbers whose values are
not known: they read what they are given number by number, where no mode sees it."""

from __future__ import annotations

import contextlib
import functools
import itertools
from types import ModuleType
from typing import Any, Callable, Iterator
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from .call_arguments import sizes_of
from .kinds import own_modules
from .numpy_arrays import held
from .python_numbers import tensor_of
from .stand_in_types import StandInType, stand_in_for

_KINDS = "BFloat16 Bool Byte Char Double Float Half Int Long Short".split()


def _of_unknown(args: tuple[Any, ...], dtype: torch.dtype) -> Any:
    """The tensor that is made of an array, or of a list of numbers; None: of something else."""
    if len(args) != 1:
        return None
    if isinstance(args[0], list):
        numbers = tensor_of(args[0])
        return None if numbers is None else numbers.to(dtype)
    tensor = held(args[0])
    return None if tensor is args[0] else tensor.detach().clone().to(dtype)


def _of_type(original: Any) -> StandInType:
    """What stands in for such a type, which is no class: equal to it but for arrays."""

    def make(*args: Any, **kwargs: Any) -> Any:
        made = _of_unknown(args, original.dtype)
        return original(*args, **kwargs) if made is None else made

    return stand_in_for(original, make)


# By the identity of what they stand in for.
_STAND_INS = {
    id(original): _of_type(original)
    for original in (getattr(torch, f"{kind}Tensor") for kind in _KINDS)
}


def _names_in(module: ModuleType) -> list[tuple[ModuleType, str, StandInType]]:
    """A module, a name of such a type in it, and what stands in for that."""
    names = ((name, _STAND_INS.get(id(value))) for name, value in vars(module).items())
    return [(module, name, other) for name, other in names if other is not None]


_IN_TORCH = _names_in(torch)


class _OldMethods(TorchFunctionMode):
    """Within it, `x.type(torch.LongTensor)` has the type, and not what stands in for it, and `resize_`
    leaves alone what has that size, and may make an empty tensor, as `x.new()`, larger."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.type:
            args = tuple(a.original if isinstance(a, StandInType) else a for a in args)
        elif func is torch.Tensor.resize_ and len(args) > 1 and not kwargs:
            size = sizes_of(args[1:])
            if args[0].shape == tuple(size):
                return args[0]
            if args[0].numel() == 0 and args[0].is_leaf:
                args[0].data = args[0].new_empty(size)
                return args[0]
        elif func is torch.Tensor.resize_as_ and not kwargs and args[0].shape == args[1].shape:
            return args[0]
        return func(*args, **(kwargs or {}))


def _new(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        made = _of_unknown(args, torch.get_default_dtype())
        return original(cls, *args, **kwargs) if made is None else made

    return new


@contextlib.contextmanager
def constructors_of_arrays() -> Iterator[None]:
    """Within it, these take such arrays: under PyTorch's names, and where the user's own files have them
    under theirs, as in `Tensor = torch.FloatTensor`."""
    with contextlib.ExitStack() as stack:
        for module, name, stand_in in itertools.chain(_IN_TORCH, *map(_names_in, own_modules())):
            stack.enter_context(mock.patch.object(module, name, stand_in))
        stack.enter_context(mock.patch.object(torch.Tensor, "__new__", _new(torch.Tensor.__new__)))
        stack.enter_context(_OldMethods())
        yield

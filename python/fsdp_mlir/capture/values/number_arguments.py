"""Calls of PyTorch's that are given a number for an argument, as `x.clamp(max=bound)`, where that number
is a tensor: the calls that compute the same bits with it."""

from __future__ import annotations

import sys
from typing import Any, Callable, Mapping, Sequence

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx import interpreter

from ...errors import E, ExportError
from ...step.places import innermost, is_users

# Which fill a new tensor with the number.
FULL = frozenset("full full_like new_full".split())
# Which have it in the dtype of their first tensor.
_OF_ITS_DTYPE = frozenset("masked_fill fill index_fill lerp".split())
# Which compute in the dtype that a tensor and a number have together.
_PROMOTING = frozenset("clamp clip clamp_min clamp_max where".split())
# What to write in place of a power of a tensor, whose kernel is another one for some exponents.
_POWERS = {
    **dict.fromkeys(("pow", "ipow", "float_power"), "an exponent: x ** torch.full((), n)"),
    "rpow": "the base of a power: torch.full((), n) ** x",
}

Read = Callable[[Any], Any]


def plain_name(func: Any) -> str:
    """The name of a function of PyTorch's, the same for one that works in place, and for an operator's."""
    return getattr(func, "__name__", "").strip("_")


def takes_tensors(func: Any) -> bool:
    """Whether there is such a call for `func`."""
    return plain_name(func) in FULL | _OF_ITS_DTYPE | _PROMOTING


def require_takes_number(func: Any, kwargs: Mapping[str, Any]) -> None:
    """Raises ExportError where no tensor has the bits of a number that `func` is given, and other
    code for the same is known. A graph of Dynamo's has no line to name, which the step has where it
    runs."""
    power, number = _POWERS.get(plain_name(func)), "a number that it reads from a tensor or keeps"
    if power is not None:
        text = f"the step raises to a power by {number}; make it a tensor where it is {power}"
    elif "alpha" in kwargs:
        text = f"the step gives as alpha= {number}; multiply by it: y + n * x"
    else:
        return
    frame = innermost(sys._getframe(1), lambda path: is_users(path) or path == interpreter.__file__)
    if frame is None or not is_users(frame.f_code.co_filename):
        raise DataDependentOutputException(func)
    raise ExportError(E.VALUE_DEPENDENT, text)


def call_with_tensors(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], read: Read) -> Any:
    """The result of `func`.

    Args:
        read: gives the tensor that such a number is, and any other value as it is.

    Raises:
        DataDependentOutputException: no call computes the same.
    """
    name = plain_name(func)
    if name in FULL:
        return _full(func, args, kwargs, read)
    tensors = [value for value in args[name == "where" :] if isinstance(value, torch.Tensor)]
    if not takes_tensors(func) or not tensors:
        raise DataDependentOutputException(func)
    first = tensors[0]
    if name == "lerp" and (_has_gradient(tensors) or first.dtype.itemsize < 4):
        raise DataDependentOutputException(func)  # which are rounded otherwise

    def operand(value: Any) -> Any:
        tensor = read(value)
        if tensor is value and (name == "where" or not isinstance(value, (int, float))):
            return value
        if tensor is value:  # both bounds are tensors, or none
            tensor = torch.scalar_tensor(value, dtype=torch.result_type(first, value))
        number = 1.0 if tensor.dtype.is_floating_point else 1
        return tensor.to(first.dtype if name in _OF_ITS_DTYPE else torch.result_type(first, number))

    return func(*map(operand, args), **{key: operand(value) for key, value in kwargs.items()})


def _full(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], read: Read) -> torch.Tensor:
    numbers: list[torch.Tensor] = []

    def zero(value: Any) -> Any:
        tensor = read(value)
        if tensor is value:
            return value
        numbers.append(tensor)
        return 0.0 if tensor.dtype.is_floating_point else 0

    tensor = func(*map(zero, args), **{key: zero(value) for key, value in kwargs.items()})
    return tensor.fill_(numbers[0].to(tensor.dtype))


def _has_gradient(tensors: Sequence[torch.Tensor]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)

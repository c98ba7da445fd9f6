"""What an optimizer's step does to complex tensors, as arithmetic of the pairs that hold them.

A rule is over pairs of numbers (step/pairs.py). PyTorch's optimizers do most of theirs on
`view_as_real`, which is then the tensor itself. The rest is here: what rounds each number of a pair
as PyTorch's complex arithmetic does. Other calls are refused.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Protocol

import torch
from torch.optim import rprop

from .numbers import Followed, Number

aten = torch.ops.aten
_SAME = {"clone", "detach", "alias", "contiguous", "copy", "neg", "zero", "zeros_like"}
# These have no value yet: what is read of them is written before.
_EMPTY = {"empty_like"}


class Calls(Followed, Protocol):
    """The way through a step, on which operators are called."""

    def call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any: ...


def element_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the numbers that a rule has of a tensor."""
    return dtype.to_real() if dtype.is_complex else dtype


class Both(Number):
    """A complex number whose parts are both the same number of the step."""


@contextlib.contextmanager
def complex_numbers() -> Iterator[None]:
    """Rprop, alone of PyTorch's optimizers, makes a complex number of its learning rate."""

    def made(real: Any, imaginary: Any) -> Any:
        same = isinstance(real, Number) and isinstance(imaginary, Number)
        if same and real.value is imaginary.value:
            return Both(real.trace, real.value)
        return complex(real, imaginary)

    rprop.complex = made
    try:
        yield
    finally:
        del rprop.complex


def is_complex_call(given: dict[str, Any]) -> bool:
    """Whether a tensor among the arguments, also in a list, is complex."""
    return any(
        _is_complex(member)
        for value in given.values()
        for member in (value if isinstance(value, (list, tuple)) else (value,))
    )


def compute_in_pairs(trace: Calls, func: Any, name: str, given: dict[str, Any]) -> Any:
    """`func`, called with complex tensors: the same on their pairs."""
    if name in ("add", "sub"):
        result = _add(trace, func, given)
    elif name == "mul":
        result = _multiply(trace, func, given)
    elif name == "full_like" and _is_both(given["fill_value"]):
        result = trace.call(func, (_pairs(given["self"]), given["fill_value"]), {})
    elif name in _SAME | _EMPTY and _keeps_dtype(given):
        result = trace.call(func, tuple(map(_pairs, given.values())), {})
    else:
        _refuse(trace, func)
    return given["self"] if func._schema.is_mutable else torch.view_as_complex(result)


def _add(trace: Calls, func: Any, given: dict[str, Any]) -> torch.Tensor:
    """Complex numbers are multiplied by `alpha` and then added, each rounded; numbers at once."""
    one, other, alpha = given["self"], given["other"], given["alpha"]
    if not (_is_complex(one) and _is_complex(other) and one.shape == other.shape):
        _refuse(trace, func)
    if isinstance(alpha, complex):
        _refuse(trace, func)
    other = _pairs(other)
    if isinstance(alpha, torch.SymFloat) or alpha != 1:
        other = trace.call(aten.mul.Tensor, (other, alpha), {})
    return trace.call(func, (_pairs(one), other, 1), {})


def _multiply(trace: Calls, func: Any, given: dict[str, Any]) -> torch.Tensor:
    """By a real number: the products of both parts with it, and with the zero of its own."""
    one, other = given["self"], given["other"]
    if not _is_complex(one):
        one, other = other, one
        if func._schema.is_mutable:
            _refuse(trace, func)
    real = isinstance(other, (int, float, torch.SymFloat)) or (
        isinstance(other, torch.Tensor) and not other.is_complex() and not other.dim()
    )
    if not real:
        _refuse(trace, func)
    return trace.call(func, (_pairs(one), other), {})


def _refuse(trace: Calls, func: Any) -> None:
    trace.fail(
        f"calls {func} with complex tensors, which a rule over pairs of numbers does not have; "
        "compute with torch.view_as_real of them, or give complex parameters another optimizer"
    )


def _keeps_dtype(given: dict[str, Any]) -> bool:
    """Whether all tensors are complex, and no other dtype is asked for."""
    tensors = [value for value in given.values() if isinstance(value, torch.Tensor)]
    dtype = given.get("dtype")
    return all(map(_is_complex, tensors)) and (dtype is None or dtype == tensors[0].dtype)


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_complex()


def _is_both(value: Any) -> bool:
    """PyTorch hands a number on in another object of the same node."""
    return isinstance(value, torch.SymFloat) and isinstance(value.node.number, Both)


def _pairs(value: Any) -> Any:
    """An argument as the call on pairs has it."""
    if _is_complex(value):
        return torch.view_as_real(value)
    return element_dtype(value) if isinstance(value, torch.dtype) else value

"""Buffers that a step replaces by other tensors: what stands in a buffer's place behind a step is its
value in the next one, as if it had been copied there."""

from __future__ import annotations

from typing import Any, Mapping

import torch
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.overrides import TorchFunctionMode

from ...errors import E, ExportError
from ...step.memory import is_same, storage_of


class NeedsCopies(Exception):
    """A capture found tensors in whose places the step is to have copies: buffers that it replaces, and
    what it writes values with a gradient into, of which autograd would make results of the step."""


def take_over(buffer: torch.Tensor, value: object, name: str) -> None:
    """Gives `buffer` the `value` that a step has put in its place.

    Raises:
        ExportError: the value is of another kind, or autograd would go through it into the next step.
    """
    if not isinstance(value, torch.Tensor):
        raise _refused(name, "something else in the place of", "give it a tensor")
    _check_fits(buffer, value, name)
    if value.requires_grad:
        raise _refused(name, "a tensor with a gradient in the place of", "detach() it")
    buffer.copy_(value)


_SET_DATA = torch.Tensor.data.__set__


class DataAssigned(TorchFunctionMode):
    """Within it, `tensor.data = value` of a parameter or a buffer is a copy into its memory, which is
    seen as a change of it. Another tensor has the value's memory from then on, as in eager mode.

    Args:
        states: names of parameters and buffers by the identity of the tensors that the step has for
            them.
    """

    def __init__(self, states: Mapping[int, str]) -> None:
        super().__init__()
        self._states = states

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func != _SET_DATA:
            return func(*args, **(kwargs or {}))
        tensor, value = args
        name = self._states.get(id(tensor))
        if name is not None:
            _check_fits(tensor, value, name)
            # It may be the memory that it has, as `state.data.to(dtype)` mostly is.
            if storage_of(value) != storage_of(tensor) or not is_same(value, tensor):
                tensor.data.copy_(value.data)
            return
        if isinstance(tensor, FunctionalTensor):  # of which PyTorch changes the outside alone
            value = value.detach()
            tensor.elem = value.elem
        func(tensor, value)


def _check_fits(state: torch.Tensor, value: torch.Tensor, name: str) -> None:
    if (value.shape, value.dtype) != (state.shape, state.dtype):
        raise _refused(
            name,
            f"{tuple(value.shape)} of {value.dtype} in the place of",
            f"keep it {tuple(state.shape)} of {state.dtype}",
        )


def _refused(name: str, what: str, remedy: str) -> ExportError:
    return ExportError(E.CHANGED_IN_PLACE, f"the forward puts {what} {name}; {remedy}")

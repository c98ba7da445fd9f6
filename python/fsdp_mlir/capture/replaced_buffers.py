"""Buffers that a step replaces by other tensors: what stands in a buffer's place behind a step is its
value in the next one, as if it had been copied there."""

from __future__ import annotations

import torch

from ..errors import E, ExportError


class BuffersReplaced(Exception):
    """A capture found buffers that the step replaces, which it has not got ready for."""


def take_over(buffer: torch.Tensor, value: object, name: str) -> None:
    """Gives `buffer` the `value` that a step has put in its place.

    Raises:
        ExportError: the value is of another kind, or autograd would go through it into the next step.
    """
    if not isinstance(value, torch.Tensor):
        raise _refused(name, "something else in the place of", "give it a tensor")
    if (value.shape, value.dtype) != (buffer.shape, buffer.dtype):
        raise _refused(
            name,
            f"{tuple(value.shape)} of {value.dtype} in the place of",
            f"keep it {tuple(buffer.shape)} of {buffer.dtype}",
        )
    if value.requires_grad:
        raise _refused(name, "a tensor with a gradient in the place of", "detach() it")
    buffer.copy_(value)


def _refused(name: str, what: str, remedy: str) -> ExportError:
    return ExportError(E.CHANGED_IN_PLACE, f"the forward puts {what} {name}; {remedy}")

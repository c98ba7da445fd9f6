"""Which tensors of a model lie over the same memory without being one tensor, and which have none.

PyTorch changes all of them when it changes one. A plan gives each name memory of its own, so that
they must be told apart from tensors that are really two.
"""

from __future__ import annotations

from typing import Optional

import numpy
import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


class Memory:
    """Named tensors by their storage."""

    def __init__(self) -> None:
        self._named: dict[int, list[tuple[str, torch.Tensor]]] = {}

    def add(self, name: str, tensor: torch.Tensor) -> None:
        if tensor.layout == torch.strided and tensor.numel():
            self._named.setdefault(storage_of(tensor), []).append((name, tensor))

    def overlapping(self, tensor: torch.Tensor) -> Optional[tuple[str, torch.Tensor]]:
        """The first tensor that shares an element with `tensor`, and its name; None: no one does."""
        if tensor.layout != torch.strided or not tensor.numel():
            return None
        for name, other in self._named.get(storage_of(tensor), ()):
            if is_same(tensor, other) or _overlap(tensor, other):
                return name, other
        return None


def is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one storage are the same elements in the same order."""
    return (one.storage_offset(), one.shape, one.stride(), one.dtype) == (
        other.storage_offset(),
        other.shape,
        other.stride(),
        other.dtype,
    )


#: Behind the name of a tensor that `is_freed`.
FREED = "has no memory for its elements, since its storage was freed or resized; give one that has"


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether the storage of a tensor is too small for it, as behind `untyped_storage().resize_(0)`.
    PyTorch's kernels do not look: they read what is not there."""
    if tensor.layout != torch.strided or tensor.is_nested or is_traceable_wrapper_subclass(tensor):
        return False
    return tensor.numel() > 0 and _span(tensor)[1] > tensor.untyped_storage().nbytes()


def storage_of(tensor: torch.Tensor) -> int:
    """The identity of the memory that a tensor is in."""
    return tensor.untyped_storage()._cdata


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one storage have a byte in common."""
    (begin, end), (other_begin, other_end) = _span(one), _span(other)
    if end <= other_begin or other_end <= begin:
        return False
    # Columns of one matrix lie between each other.
    first = min(begin, other_begin)
    used = numpy.zeros(max(end, other_end) - first, dtype=bool)
    _bytes(used, one, begin - first)[...] = True
    return bool(_bytes(used, other, other_begin - first).any())


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of `tensor` in its storage, and the one behind its last."""
    size = tensor.element_size()
    begin = tensor.storage_offset() * size
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + (last + 1) * size


def _bytes(used: numpy.ndarray, tensor: torch.Tensor, begin: int) -> numpy.ndarray:
    size = tensor.element_size()
    strides = [stride * size for stride in tensor.stride()] + [1]
    return numpy.lib.stride_tricks.as_strided(used[begin:], [*tensor.shape, size], strides)

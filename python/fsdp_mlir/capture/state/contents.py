"""What memory holds while a step runs on tensors without values: how it was computed, and which of
its elements are copies, as in a cache that a step fills."""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch


class Elements(NamedTuple):
    """The elements of a memory from `first` to `last`."""

    dtype: torch.dtype
    first: int
    last: int

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Optional[Elements]:
        """Those between the first and the last one of `tensor`; None where sizes have no values."""
        numbers = (*tensor.shape, *tensor.stride(), first := tensor.storage_offset())
        if not all(isinstance(number, int) for number in numbers) or tensor.numel() == 0:
            return None
        steps = ((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
        return cls(tensor.dtype, first, first + sum(steps))

    def are_all(self, tensor: torch.Tensor) -> bool:
        """Whether nothing lies between those of `tensor`, which these are."""
        return self.last - self.first + 1 == tensor.numel()

    def contain(self, other: Optional[Elements]) -> bool:
        if other is None or self.dtype != other.dtype:
            return False
        return self.first <= other.first and other.last <= self.last


class Copied(NamedTuple):
    """Elements that were copied from other memory, as into a cache.

    Attributes:
        content: that of the other memory, where they had the same places in it; or their own.
        around: the digest of the memory without them.
    """

    elements: Elements
    content: Content
    around: int

    @property
    def digest(self) -> int:
        """Of the whole memory. Copying the same again does not change it."""
        return hash(("copied", self.elements, self.content.digest, self.around))


class Content(NamedTuple):
    """What memory holds: a digest of how it was computed, the watched numbers in it, the states that
    it comes from, a bit for each, and which elements are copies."""

    digest: int
    numbers: frozenset[str] = frozenset()
    origins: int = 0
    copied: Optional[Copied] = None


def is_in_same_places(destination: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether each element is copied to where it is in its own memory."""
    if source.layout != torch.strided:
        return False
    one, other = (
        (t.dtype, t.shape, t.stride(), t.storage_offset(), t.is_conj(), t.is_neg())
        for t in (destination, source)
    )
    return one == other

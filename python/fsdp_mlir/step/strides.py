"""In which order parameters and buffers are held: row by row, whatever a model has them in."""

from __future__ import annotations

from typing import Sequence

import torch


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a row-major tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= torch.sym_max(size, 1)  # of a size that depends on values, too
    return tuple(reversed(strides))


def memory_order(tensor: torch.Tensor) -> list[int]:
    """The dimensions of a tensor, in the order of their strides, the largest first."""
    return sorted(range(tensor.dim()), key=tensor.stride, reverse=True)  # stable


def has_gaps(tensor: torch.Tensor) -> bool:
    """Whether its elements do not fill a piece of memory, each a place of its own."""
    return not tensor.permute(memory_order(tensor)).is_contiguous()

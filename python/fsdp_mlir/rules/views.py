"""How an optimizer's step looks at a tensor: as it is, with its dimensions in another order, or at
a part of it."""

from __future__ import annotations

import math
from typing import Optional

import torch

from .values import Expr, Layout, Pool

aten = torch.ops.aten


def layout_of(tensor: torch.Tensor) -> Layout:
    """Shape and strides of a tensor; of a complex one, those of its pairs (pairs.py)."""
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if tensor.is_complex():
        return (*shape, 2), (*(2 * stride for stride in strides), 1)
    return shape, strides


def order_of(view: torch.Tensor, base: Layout) -> Optional[tuple[int, ...]]:
    """The dimensions of `base` in the order in which `view` has them; None: it has others."""
    left = list(zip(*base))
    order: list[int] = []
    for size in zip(*layout_of(view)):
        order += [i for i, own in enumerate(left) if own == size and i not in order][:1]
    complete = len(order) == len(left) == view.dim()
    return tuple(order) if complete else None


def view_of(pool: Pool, value: Expr, view: torch.Tensor, base: Layout, where: str) -> Expr:
    """`value`, which lies as `base` says, as `view` shows it."""
    layout, order = layout_of(view), order_of(view, base)
    if order is not None:
        return permuted(pool, value, order, layout, where)
    return strided(pool, value, layout, view.storage_offset(), where)


def strided(pool: Pool, value: Expr, layout: Layout, offset: int, where: str) -> Expr:
    """`value` by other sizes and strides, from an element on."""
    if value.callee is aten.as_strided.default:
        base, sizes, _, begin = value.operands[1:]
        if (
            base.layout == layout
            and begin == offset == 0
            and math.prod(sizes) == math.prod(layout[0])
        ):
            return base  # all of it, looked at as it is
    return pool.make(
        "call", aten.as_strided.default, value, *layout, offset,
        dtype=value.dtype, layout=layout, where=where,
    )  # fmt: skip


def permuted(pool: Pool, value: Expr, order: tuple[int, ...], layout: Layout, where: str) -> Expr:
    """`value` with its dimensions in another order."""
    if value.callee is aten.permute.default:
        inner = tuple(value.operands[2][i] for i in order)
        if inner == tuple(range(len(order))):
            return value.operands[1]
    return pool.make(
        "call", aten.permute.default, value, order, dtype=value.dtype, layout=layout, where=where
    )


def laid_out(pool: Pool, value: Expr, held: Layout, wanted: Layout, where: str) -> Expr:
    """A copy of `value`, which lies as `held` says, that lies as `wanted` says."""
    if held == wanted:
        return value
    shape, strides = wanted
    # A copy lies row by row: of the dimensions in the order in which they are to lie.
    order = tuple(sorted(range(len(shape)), key=lambda i: -strides[i]))
    inverse = tuple(order.index(i) for i in range(len(order)))
    lain = tuple(held[0][i] for i in order), tuple(held[1][i] for i in order)
    rows = tuple(shape[i] for i in order), tuple(strides[i] for i in order)
    if order != tuple(range(len(order))):
        value = permuted(pool, value, order, lain, where)
    if lain != rows:
        value = pool.make(
            "call", aten.clone.default, value, torch.contiguous_format,
            dtype=value.dtype, layout=rows, where=where,
        )  # fmt: skip
    if order != tuple(range(len(order))):
        value = permuted(pool, value, inverse, wanted, where)
    return value

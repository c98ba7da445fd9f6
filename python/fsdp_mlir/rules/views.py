"""How an optimizer's step looks at a tensor: as it is, or with its dimensions in another order."""

from __future__ import annotations

from typing import Optional

import torch

from .values import Expr, Layout, Pool

aten = torch.ops.aten


def layout_of(tensor: torch.Tensor) -> Layout:
    return tuple(tensor.shape), tuple(tensor.stride())


def order_of(view: torch.Tensor, base: Layout) -> Optional[tuple[int, ...]]:
    """The dimensions of `base` in the order in which `view` has them; None: it has others."""
    left = list(zip(*base))
    order: list[int] = []
    for size in zip(*layout_of(view)):
        order += [i for i, own in enumerate(left) if own == size and i not in order][:1]
    complete = len(order) == len(left) == view.dim()
    return tuple(order) if complete else None


def permuted(pool: Pool, value: Expr, order: tuple[int, ...], layout: Layout, where: str) -> Expr:
    """`value` with its dimensions in another order."""
    if value.callee is aten.permute.default:
        inner = tuple(value.operands[2][i] for i in order)
        if inner == tuple(range(len(order))):
            return value.operands[1]
    return pool.make(
        "call", aten.permute.default, value, order, dtype=value.dtype, layout=layout, where=where
    )

"""A bound of sizes that depend on values."""

from __future__ import annotations

from typing import Any

from torch.fx import traceback

# What a call in such a block is marked with.
BOUND = "fsdp_at_most"


def at_most(n: int) -> Any:
    """A block in which each size that depends on values is `n` or less.

    `nonzero()`, `x[mask]` and the like have as many elements as values say. A plan keeps place for
    the largest number that there can be: all elements of the mask. Where the code knows a smaller
    one, or where there is none, as of `torch.arange(count.item())`, the block says it:

        with fsdp_mlir.at_most(64):
            rows = torch.nonzero(mask).squeeze(-1)

    A step that finds more ends with an error that names the line. In eager mode the block does
    nothing.

    Args:
        n: the largest number of elements that an operator in the block gives by values.
    """
    return traceback.annotate({BOUND: n})

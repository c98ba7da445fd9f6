"""FlexAttention as other operators: `scaled_dot_product_attention` with its mask as a tensor, or, where it
changes scores, products and a softmax. So it trains on CPUs too, where PyTorch has no gradient of it.
"""

from __future__ import annotations

from typing import Any, Callable
from unittest import mock

import torch
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._higher_order_ops.flex_attention import math_attention
from torch.nn import functional as F
from torch.nn.attention import flex_attention as functions

Tensor = torch.Tensor
Function = Callable[..., Any]


def on_all_devices() -> Any:
    """Within it, FlexAttention does not refuse CPUs where there are gradients."""
    return mock.patch.object(functions, "_validate_device", lambda *_: None)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Function,
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: dict[str, Any],
    score_others: tuple[Any, ...] = (),
    mask_others: tuple[Any, ...] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and where the step asks for them the sums of exponentials, as base-2 logarithms. One
    sample of keys may be for all samples of queries, and one head of keys for several heads of queries.
    """
    *_, rows_in_block, columns_in_block, mask_mod = block_mask
    asks_for_sums = kernel_options["OUTPUT_LOGSUMEXP"]
    if asks_for_sums or _changes_scores(score_mod, query, score_others):
        mods = score_mod, block_mask, scale, kernel_options, score_others, mask_others
        return math_attention(query, key, value, *mods)
    key, value = (tensor.expand(len(query), -1, -1, -1) for tensor in (key, value))
    mask = None
    # A block of that size is all that there is, and masks nothing.
    if (rows_in_block, columns_in_block) != (functions._LARGE_SPARSE_BLOCK_SIZE,) * 2:
        mask = _mask(mask_mod, mask_others, query, key)
    grouped = key.shape[1] != query.shape[1]
    attended = F.scaled_dot_product_attention(
        query, key, value, mask, scale=scale, enable_gqa=grouped
    )
    return attended, query.new_empty(0), query.new_empty(0)


def _mask(mask_mod: Function, others: tuple[Any, ...], query: Tensor, key: Tensor) -> Tensor:
    """What a mask is at samples, heads, rows and columns; of one sample or head where all have the same."""
    shape = *query.shape[:3], key.shape[2]
    of_all = functions._vmap_for_bhqkv(mask_mod, (), (None,) * len(others))
    with TransformGetItemToIndex():
        mask = of_all(*(torch.arange(size, device=query.device) for size in shape), *others)
    for dimension in (0, 1):
        if mask.stride(dimension) == 0:
            mask = mask.narrow(dimension, 0, 1)
    return mask


def _changes_scores(score_mod: Function, query: Tensor, others: tuple[Any, ...]) -> bool:
    """Whether it gives another score than it takes."""
    score, place = query.new_zeros(()), query.new_zeros((), dtype=torch.int)
    with TransformGetItemToIndex():
        return score_mod(score, place, place, place, place, *others) is not score

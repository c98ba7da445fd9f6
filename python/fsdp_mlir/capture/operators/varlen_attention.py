"""Attention over packed sequences of several lengths (`torch.nn.attention.varlen`), whose operator has
kernels for GPUs alone: it is captured as `scaled_dot_product_attention` in which each token sees its own
sequence.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch.nn import functional as F
from torch.nn.attention import varlen  # which registers the operator

from .eager_kernels import defined_as

Tensor = torch.Tensor


def packed_attention_by_masks() -> Any:
    """Within it, such attention is captured as attention with a mask of all tokens by all."""
    return defined_as({torch.ops.torch_attn._varlen_attn.default: _attention})


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    begins_q: Tensor,
    begins_k: Tensor,
    longest_q: int,
    longest_k: int,
    is_causal: bool = False,
    scale: Optional[float] = None,
    window: Optional[Sequence[int]] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The result by tokens, heads and numbers, as queries are; the logarithms of the sums of exponentials by
    heads and tokens; and a state of random numbers, which nobody draws."""
    left, right = varlen._normalize_window_size(window)
    mask = _mask(begins_q, begins_k, len(query), len(key), left, 0 if is_causal else right)
    q, k, v = (tensor.transpose(0, 1)[None] for tensor in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    attended = F.scaled_dot_product_attention(q, k, v, mask, scale=scale)
    scores = (q.float() @ k.float().mT * scale).masked_fill(~mask, -torch.inf)
    state = torch.zeros(2, dtype=torch.uint64, device=query.device)
    return attended[0].transpose(0, 1), scores[0].logsumexp(-1), state


def _mask(
    begins_q: Tensor, begins_k: Tensor, queries: int, keys: int, left: int, right: int
) -> Tensor:
    """Which keys each query sees: of its own sequence, as many to each side as a window says, or all where
    that is -1. The last query of a sequence stands at its last key."""
    sequence_q, place_q = _places(begins_q, queries)
    sequence_k, place_k = _places(begins_k, keys)
    mask = sequence_q[:, None] == sequence_k
    more_keys = F.pad(begins_k.diff() - begins_q.diff(), (0, 1))
    distance = place_k - (place_q + more_keys[sequence_q])[:, None]
    if left >= 0:
        mask = mask & (distance >= -left)
    if right >= 0:
        mask = mask & (distance <= right)
    return mask


def _places(begins: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The sequence of each token, and its place there. What is behind the last sequence is one more."""
    tokens = torch.arange(count, device=begins.device)
    sequence = (tokens[:, None] >= begins[1:]).sum(1)
    return sequence, tokens - begins[sequence]

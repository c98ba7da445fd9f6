"""Transformer encoder layers in `eval()`, whose forward is one operator where nobody asks for gradients.

Its kernel trusts shapes that no plan can check. So the layer is captured as the operators that the
kernel consists of, in its order and with its bits.
"""

from __future__ import annotations

import math
from typing import Any, Optional

import torch
from torch.nn import functional as F

from .eager_kernels import defined_as

_aten = torch.ops.aten
Tensor = torch.Tensor


def encoder_layers_by_parts() -> Any:
    """Within it, such a layer is captured as attention, norms and products."""
    return defined_as({_aten._transformer_encoder_layer_fwd.default: _layer})


def _layer(
    x: Tensor,
    width: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Optional[Tensor] = None,
    mask_type: Optional[int] = None,
) -> Tensor:
    """What `transformer_encoder_layer_forward` of PyTorch's C++ computes."""

    def normed(values: Tensor, weight: Tensor, bias: Tensor, here: bool) -> Tensor:
        return F.layer_norm(values, (width,), weight, bias, eps) if here else values

    attended = normed(x, norm_weight_1, norm_bias_1, norm_first)
    qkv = F.linear(attended, qkv_weight) + qkv_bias
    attended = F.linear(_attention(qkv, heads, mask, mask_type), proj_weight, proj_bias)
    x = normed(attended + x, norm_weight_1, norm_bias_1, not norm_first)
    hidden = normed(x, norm_weight_2, norm_bias_2, norm_first)
    hidden = F.linear(hidden, ffn_weight_1, ffn_bias_1)
    hidden = F.gelu(hidden) if use_gelu else F.relu(hidden)
    hidden = F.linear(hidden, ffn_weight_2, ffn_bias_2)
    return normed(hidden + x, norm_weight_2, norm_bias_2, not norm_first)


def _attention(qkv: Tensor, heads: int, mask: Optional[Tensor], mask_type: Optional[int]) -> Tensor:
    """Of queries, keys and values side by side, by samples and places. What a mask has that is not
    zero is left out, also where it is a number to be added."""
    samples, places, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    parts = qkv.view(samples, places, 3, heads, width // heads).permute(2, 0, 3, 1, 4).contiguous()
    q, k, v = parts.flatten(1, 2).unbind(0)
    q = q * (1 / math.sqrt(width // heads))
    scores = torch.bmm(q, k.transpose(1, 2)).view(samples, heads, places, places)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        weights = _aten._masked_softmax(scores, mask.bool(), 3, mask_type)
    values = torch.bmm(weights.view(samples * heads, places, places), v)
    values = values.view(samples, heads, places, width // heads).transpose(1, 2)
    return values.reshape(samples, places, width)

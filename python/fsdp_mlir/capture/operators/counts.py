"""`torch.bincount` with `minlength`, as code counts the tokens of each expert, or the edges of each
node: sums by index, of a size that the code gives."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException

from ..graph.known_values import known_value
from .eager_kernels import defined_as


def counts_of_known_size() -> Any:
    """Within it, `bincount` has as many counts as eager gives of numbers of the code's own, and of
    others as many as `minlength` says. Eager gives more where a number is larger; with these sums
    such a number is an error of the step."""
    return defined_as({torch.ops.aten.bincount.default: _bincount})


def _bincount(
    input: torch.Tensor, weights: Optional[torch.Tensor] = None, minlength: int = 0
) -> torch.Tensor:
    if known_value(input) is not None:
        minlength = max(minlength, int(input.max()) + 1 if input.numel() else 0)
    elif minlength == 0:
        raise DynamicOutputShapeException(torch.ops.aten.bincount.default)
    if weights is None:
        weights = torch.ones_like(input, dtype=torch.int64)
    elif weights.dtype != torch.float32:
        weights = weights.double()
    counts = torch.zeros(minlength, dtype=weights.dtype, device=input.device)
    return counts.index_add(0, input.long(), weights.detach())

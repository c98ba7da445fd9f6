"""Tensors whose memory is not there any more."""

from __future__ import annotations

import torch


def freed(tensor: torch.Tensor, left: int = 0) -> torch.Tensor:
    """A copy of `tensor`, of whose memory so many bytes are left. Its shape stays, as that of a
    parameter does that FSDP1 has resharded."""
    copy = tensor.detach().clone()
    copy.untyped_storage().resize_(left)
    return copy

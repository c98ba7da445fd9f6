"""`torch.istft` as eager PyTorch computes it.

A window is the same for all signals, of whose batch PyTorch's definition for graphs gives the sum of
its squares the size, while it sums those of one signal. The kernel of that sum takes no such operands.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Sequence
from unittest import mock

import torch
from torch import _refs

from .eager_kernels import defined_as

_aten = torch.ops.aten


def eager_inverse_stft() -> Any:
    """Within it, `torch.istft` is captured with the sums that eager's has."""
    return defined_as({_aten.istft.default: _istft})


def _istft(*args: Any, **kwargs: Any) -> torch.Tensor:
    own = SimpleNamespace(unfold_backward=_sum_of_windows, constant_pad_nd=_aten.constant_pad_nd)
    with mock.patch.object(_refs, "aten", own):
        return _refs.istft(*args, **kwargs)


def _sum_of_windows(
    windows: torch.Tensor, input_sizes: Sequence[int], dim: int, size: int, step: int
) -> torch.Tensor:
    sizes = (windows.shape[0], *input_sizes[1:])
    return _aten.unfold_backward(windows, sizes, dim, size, step)

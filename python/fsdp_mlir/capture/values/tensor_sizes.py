"""Sizes of new tensors that are tensors themselves, as in `torch.zeros(batch, counts.max(), 4)` and
`torch.arange(lengths.max())`: PyTorch reads such a number where no mode sees it."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch.nn.functional import one_hot
from torch.overrides import TorchFunctionMode

from ..graph.known_values import known_value
from .python_numbers import as_symbol

_NEW = {getattr(torch, name) for name in "zeros ones empty rand randn arange".split()}
_NEW_AS = {getattr(torch.Tensor, f"new_{name}") for name in "zeros ones empty".split()}


class TensorSizes(TorchFunctionMode):
    """Within it, a size of a new tensor may be a tensor without dimensions whose value is not known."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _NEW:
            args = tuple(map(_as_size, args))
        elif func in _NEW_AS:
            args = args[0], *map(_as_size, args[1:])
        elif func is one_hot and (made := _one_hot(*args, **(kwargs or {}))) is not None:
            return made
        return func(*args, **(kwargs or {}))


def _one_hot(tensor: torch.Tensor, num_classes: Any = -1) -> Optional[torch.Tensor]:
    """What it gives of as many classes as values say; None of another number."""
    size = _as_size(num_classes)
    if not isinstance(size, torch.SymInt):
        return None
    return tensor.new_zeros(*tensor.shape, size).scatter(-1, tensor.unsqueeze(-1), 1)


def _as_size(size: Any) -> Any:
    """The symbol of such a tensor, also in a list of sizes, and any other size."""
    if isinstance(size, (list, tuple)):
        return tuple(map(_as_size, size))
    if not isinstance(size, torch.Tensor) or known_value(size) is not None:
        return size
    symbol = as_symbol(size)
    return size if symbol is None else symbol

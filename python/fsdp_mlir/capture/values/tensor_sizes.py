"""Sizes of new tensors that are tensors themselves, as in `torch.zeros(batch, counts.max(), 4)` and
`torch.arange(lengths.max())`: PyTorch reads such a number where no mode sees it."""

from __future__ import annotations

from typing import Any

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
        elif func is one_hot and isinstance(
            size := _classes(*args, **(kwargs or {})), torch.SymInt
        ):
            return (args[0].unsqueeze(-1) == torch.arange(size)).to(torch.int64)
        return func(*args, **(kwargs or {}))


def _classes(tensor: Any, num_classes: Any = -1) -> Any:
    """How many classes `one_hot` is given."""
    return _as_size(num_classes)


def _as_size(size: Any) -> Any:
    """The symbol of such a tensor, also in a list of sizes, and any other size."""
    if isinstance(size, (list, tuple)):
        return tuple(map(_as_size, size))
    if not isinstance(size, torch.Tensor) or known_value(size) is not None:
        return size
    symbol = as_symbol(size)
    return size if symbol is None else symbol

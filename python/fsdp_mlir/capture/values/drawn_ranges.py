"""Whole numbers that a step draws by `torch.randint`, of which a comparison with its bounds is known:
whether a crop at such a place needs padding."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch.fx.experimental.symbolic_shapes import constrain_range
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

# The least and the largest number of each tensor that is drawn, and the tensor's version then: one that
# is changed since has none.
_bounds = WeakTensorKeyDictionary()
_DATA = torch.Tensor.data.__get__


class DrawnRanges(TorchFunctionMode):
    """Within it, the bounds of what is drawn are known."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.randint and (bounds := _bounds_of(*args, **(kwargs or {}))):
            _bounds[result] = *bounds, result._version
        elif func == _DATA and args[0] in _bounds:
            del _bounds[args[0]]  # what is changed by its data has the same version
        return result


def _bounds_of(*args: Any, **kwargs: Any) -> Optional[tuple[int, int]]:
    """The least and the largest number that `torch.randint` draws; None: they depend on values."""
    numbers = [number for number in args[:2] if not isinstance(number, (tuple, list, torch.Size))]
    numbers += [kwargs[name] for name in ("low", "high") if name in kwargs]
    if not all(type(number) is int for number in numbers):
        return None
    low, high = numbers if len(numbers) == 2 else (0, *numbers)
    return low, high - 1


def constrained(symbol: torch.SymInt, tensor: torch.Tensor) -> torch.SymInt:
    """`symbol`, the number that `tensor` is, which is known to be within what is drawn."""
    low, most, version = _bounds.get(tensor, (0, 0, None))
    if tensor._version == version:
        constrain_range(symbol, min=low, max=most)
    return symbol

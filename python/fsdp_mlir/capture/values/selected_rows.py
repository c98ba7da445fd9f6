"""Rows that a mask selects, as many of each sample: `x[mask].reshape(batch, -1, width)`, as masked
autoencoders have those that they see.

PyTorch would have to know that the samples divide the rows. Here each sample's selected rows come first,
in their order, and the others are cut off.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from .call_arguments import places_of, sizes_of
from .python_numbers import as_symbol

_RESHAPE = (torch.reshape, torch.Tensor.reshape, torch.Tensor.view)
_NOT = (torch.Tensor.__invert__, torch.logical_not, torch.Tensor.logical_not, torch.bitwise_not)


class SelectedRows(TorchFunctionMode):
    """Within it, rows that a mask of samples and places selects may be brought together by samples. A
    step of a plan ends with an error where the samples do not have as many each."""

    def __init__(self) -> None:
        super().__init__()
        self._of = WeakTensorKeyDictionary()  # what is selected: of what, and by which mask
        self._opposite = WeakTensorKeyDictionary()  # of a mask that `~mask` has given: that mask
        # How many places of each sample a mask has, or its opposite has.
        self._counts = WeakTensorKeyDictionary()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _RESHAPE and not kwargs and args[0] in self._of:
            x, mask, known = self._of[args[0]]
            sizes = sizes_of(args[1:])
            if _are_known(sizes) and tuple(sizes) == (mask.shape[0], -1, *x.shape[2:]):
                return self._by_samples(x, mask, known)
        result = func(*args, **(kwargs or {}))
        if func in _NOT and args and args[0].dtype == torch.bool:
            self._opposite[result] = args[0]
        if func is torch.Tensor.__getitem__ and (mask := _mask_of(*args)) is not None:
            # As they are now, whatever is written into them behind it.
            self._of[result] = args[0].clone(), mask.clone(), mask
        return result

    def _by_samples(self, x: torch.Tensor, mask: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        order = mask.logical_not().to(torch.uint8).argsort(dim=1, stable=True)
        order = order.reshape(*mask.shape, *[1] * (x.dim() - 2)).expand(x.shape)
        counts = mask.sum(1)
        count = self._count(known, mask.shape[1])
        for other in (counts.amin(), counts.amax()):
            torch._check(as_symbol(other) == count)
        return x.gather(1, order)[:, :count]

    def _count(self, mask: torch.Tensor, places: int) -> Any:
        """How many places of each sample a mask has: what it leaves is the rest of them."""
        of = self._opposite.get(mask, mask)
        is_itself = of is mask
        if of not in self._counts:
            self._counts[of] = is_itself, as_symbol(mask.sum(1).amax())
        was_itself, count = self._counts[of]
        return count if is_itself is was_itself else places - count


def _mask_of(x: torch.Tensor, index: Any) -> Optional[torch.Tensor]:
    """The mask of samples and places that an index is; None: it is something else."""
    mask, *others = places_of(index) or (None,)
    if others or not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool or mask.dim() != 2:
        return None
    return mask if _are_known(x.shape) and mask.shape == x.shape[:2] else None


def _are_known(sizes: Any) -> bool:
    return all(isinstance(size, int) for size in sizes)

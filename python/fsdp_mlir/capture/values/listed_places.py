"""Loops over the places where a mask is true: `for expert in hit.nonzero():`.

How often such a loop runs depends on values. It is followed as a loop over all places of the mask,
each of which is a decision: whether it is among them.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Callable, Iterable, Iterator
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

_PLACES = (torch.nonzero, torch.Tensor.nonzero, torch.argwhere, torch.Tensor.argwhere, torch.where)
_SAME_PLACES = (
    *(torch.flatten, torch.Tensor.flatten, torch.ravel, torch.Tensor.ravel),
    *(torch.reshape, torch.Tensor.reshape, torch.Tensor.view),
    *(torch.squeeze, torch.Tensor.squeeze),
)
# Asks whether a step finds that an element of a mask is true, at a place of the user's code.
Ask = Callable[[torch.Tensor, Any], bool]


class _Lists(TorchFunctionMode):
    """Knows which tensors list the places of masks, each of one dimension and `most` elements."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.masks = WeakTensorKeyDictionary()
        self._most = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _PLACES and len(args) == 1 and self._is_short(args[0]):
            mask = args[0].detach().clone()  # as it is now
            for places in result if isinstance(result, tuple) else (result,):
                self.masks[places] = mask
        elif func in _SAME_PLACES or func is torch.Tensor.__getitem__ and _is_of_rows(args[1]):
            if args[0] in self.masks and _are_as_many(result, args[0]):
                self.masks[result] = self.masks[args[0]]
        return result

    def _is_short(self, mask: torch.Tensor) -> bool:
        size = mask.shape[0] if mask.dim() == 1 else None
        return isinstance(size, int) and size <= self._most


def _is_of_rows(index: Any) -> bool:
    """Whether an index takes something of each row: `[:, 0]`, `[..., 0]`."""
    first = index[0] if isinstance(index, tuple) and index else None
    return (first is Ellipsis or first == slice(None)) and all(
        isinstance(member, (int, slice)) for member in index[1:]
    )


def _are_as_many(one: torch.Tensor, other: torch.Tensor) -> bool:
    sizes = [t.shape[0] for t in (one, other) if t.dim() > 0]
    return len(sizes) == 2 and str(sizes[0]) == str(sizes[1])


@contextlib.contextmanager
def loops_over_places(ask: Ask, most: int) -> Iterator[None]:
    """Within it, a loop over a list of places, of a mask of `most` elements at most, goes over those of
    which `ask` says that they are in."""
    lists = _Lists(most)

    def iterate(original: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Iterable[Any]]:
        @functools.wraps(original)
        def iterator(tensor: torch.Tensor) -> Iterable[Any]:
            if tensor not in lists.masks:
                return original(tensor)
            mask, frame = lists.masks[tensor], sys._getframe(1)
            return (
                torch.full(tensor.shape[1:], place)
                for place in range(mask.shape[0])
                if ask(mask[place], frame)
            )

        return iterator

    with lists, mock.patch.object(torch.Tensor, "__iter__", iterate(torch.Tensor.__iter__)):
        yield

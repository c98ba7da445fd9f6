"""Ranges whose ends depend on values, as places in a tensor: `scores[range(len(scores)), labels]`."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, NoReturn
from unittest import mock

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.overrides import TorchFunctionMode

from .call_arguments import places_of
from .kinds import own_modules
from .numpy_arrays import ITEMS
from .stand_in_types import stand_in_for


class _Places:
    """Stands for `range(*ends)`. Whoever does anything else with it than to index a tensor gets the
    error that `range` has given."""

    __class__ = property(lambda self: range)

    def __init__(self, ends: tuple[Any, ...], error: Exception) -> None:
        self._ends, self._error = ends, error

    def tensor(self) -> torch.Tensor:
        """The places that it stands for."""
        return torch.arange(*self._ends)

    def _refuse(self, *args: Any) -> NoReturn:
        raise self._error

    __iter__ = __len__ = __reversed__ = __getitem__ = __contains__ = __hash__ = __bool__ = _refuse

    def __eq__(self, other: object) -> bool:
        return self._refuse() if isinstance(other, range) else False


def _range(*ends: Any) -> Any:
    try:
        return range(*ends)
    except GuardOnDataDependentSymNode as error:
        return _Places(ends, error)


def _as_tensor(place: Any) -> Any:
    return place.tensor() if type(place) is _Places else place


class _RangesInItems(TorchFunctionMode):
    """Within it, such a range is an index as the tensor of its places is."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in ITEMS:
            places = places_of(args[1])
            if any(type(place) is _Places for place in places):
                args = args[0], tuple(map(_as_tensor, places)), *args[2:]
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def ranges_as_places() -> Iterator[None]:
    """Within it, the user's own files may have ranges whose ends depend on values as places of items."""
    with contextlib.ExitStack() as stack:
        for module in own_modules():
            if "range" not in vars(module):
                stand_in = stand_in_for(range, _range)
                stack.enter_context(mock.patch.object(module, "range", stand_in, create=True))
        stack.enter_context(_RangesInItems())
        yield

"""Arguments of PyTorch's calls that code gives one by one, or in a tuple."""

from __future__ import annotations

from typing import Any, Sequence


def places_of(index: Any) -> tuple[Any, ...]:
    """The places of `x[index]`, one for each dimension that it is about."""
    return index if isinstance(index, tuple) else (index,)


def sizes_of(arguments: Sequence[Any]) -> Sequence[Any]:
    """The sizes in `x.view(*arguments)`, which may be one list of them."""
    first = arguments[0]
    return first if isinstance(first, (tuple, list)) else arguments

"""SciPy's `linear_sum_assignment` of tensors whose values are not known, by which detectors match what
they find with what there is: an operator of the runtime in its place, which finds the same."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Callable, Iterator

import numpy as np
import torch

from ..graph import own_operators
from .numpy_arrays import ArrayOf, unknown
from .replaced_names import ReplacedNames


@contextlib.contextmanager
def assignments_of_tensors() -> Iterator[None]:
    """Within it, SciPy's function takes tensors without values, where SciPy is loaded."""
    optimize = sys.modules.get("scipy.optimize")
    if optimize is None:
        yield
        return
    with _everywhere(optimize.linear_sum_assignment).replaced():
        yield


@functools.cache
def _everywhere(original: Callable[..., Any]) -> ReplacedNames:
    return ReplacedNames([(original, _assigned(original))])


class _Places(ArrayOf):
    """Rows or columns, which several assignments may count from other places, and join."""

    def __add__(self, other: Any) -> Any:
        return _Places(self.tensor + other) if type(other) is int else self._refuse()

    __radd__ = __add__

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        is_join = func is np.concatenate and len(args) == 1 and not kwargs
        if not is_join or not all(isinstance(places, _Places) for places in args[0]):
            self._refuse()
        return _Places(torch.cat([places.tensor for places in args[0]]))


def _assigned(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def linear_sum_assignment(cost_matrix: Any, maximize: bool = False) -> Any:
        tensor = unknown(cost_matrix)
        if tensor is None or tensor.dim() != 2:  # of which SciPy says what is wrong
            return original(cost_matrix, maximize)
        found = own_operators.linear_sum_assignment(tensor.detach(), maximize)
        return tuple(map(_Places, found))

    return linear_sum_assignment

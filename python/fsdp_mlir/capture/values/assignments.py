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

_NAME = "linear_sum_assignment"


@contextlib.contextmanager
def assignments_of_tensors() -> Iterator[None]:
    """Within it, SciPy's function takes tensors without values wherever a module has it by its
    own name. Each run of a step enters it: to look for it under all names would take as long as a small
    step."""
    optimize = sys.modules.get("scipy.optimize")
    if optimize is None:
        yield
        return
    original = optimize.linear_sum_assignment
    of_tensors = _assigned(original)
    # Names alone, and not whole tables, which a step may change.
    modules = [vars(module) for module in list(sys.modules.values()) if hasattr(module, "__dict__")]
    having = [names for names in modules if names.get(_NAME) is original]
    for names in having:
        names[_NAME] = of_tensors
    try:
        yield
    finally:
        for names in having:
            names[_NAME] = original


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

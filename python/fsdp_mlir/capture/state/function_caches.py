"""What functions under `functools.lru_cache` have kept of a capture: tensors without values, which no
later run of the step can compute with."""

from __future__ import annotations

import functools
import gc
import inspect
import operator
import sys
import weakref
from itertools import compress, repeat
from typing import Any, Iterable

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from ...errors import note
from ...step.places import is_users
from ..graph.known_values import held_tensors, known_value

# How many misses each cache had had when it was last looked at. Without another one it holds nothing
# new.
_looked_at: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_CACHE = functools._lru_cache_wrapper


class _AllCaches:
    """Those of the process. Each holds its type, so the type's references tell whether there are others
    than before: to go through all objects, millions, takes a tenth of a second."""

    def __init__(self) -> None:
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self._held_besides = -1

    def find(self) -> list[Any]:
        if self._held() != self._held_besides:
            self._known = weakref.WeakSet(_look_for_caches())
            self._held_besides = self._held()
        return list(self._known)

    def _held(self) -> int:
        """By how much else the type is held."""
        return sys.getrefcount(_CACHE) - len(self._known)


def _look_for_caches() -> list[Any]:
    objects = gc.get_objects()
    are_caches = map(operator.is_, map(type, objects), repeat(_CACHE))
    return list(compress(objects, are_caches))


_all = _AllCaches()


class FunctionCaches:
    """The caches of functions that there are now."""

    def __init__(self) -> None:
        self._caches = _all.find()

    def forget_captured(self) -> None:
        """Empties those that hold tensors of a capture: the next call computes them anew."""
        for cache in self._caches:
            if _looked_at.get(cache) == cache.cache_info().misses:
                continue
            tensors = [t for t in held_tensors(gc.get_referents(cache)) if _is_captured(t)]
            if tensors:
                cache.cache_clear()
                _note_forgotten(cache, tensors)
            _looked_at[cache] = cache.cache_info().misses


def _note_forgotten(cache: Any, tensors: Iterable[torch.Tensor]) -> None:
    code = getattr(inspect.unwrap(cache), "__code__", None)
    of_user = code is not None and is_users(code.co_filename)
    if of_user and any(known_value(tensor) is None for tensor in tensors):
        note(
            f"the step keeps what {cache.__qualname__} computes (functools.lru_cache), and "
            "the exported step computes it each time; where it draws random numbers or "
            "reads the model, compute it before the step"
        )


def _is_captured(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, (FakeTensor, FunctionalTensor))

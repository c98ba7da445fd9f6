"""Generators of PyTorch's that a step keeps, as in `torch.randn(4, generator=g)`: the run's own generator
is drawn from instead."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterator

import torch
from torch.overrides import TorchFunctionMode

from ...step.places import innermost, is_users, said_line
from .draws import note_drawn

# What a generator is seeded with while a step is captured. Another seed is one that the step gives it,
# so that each step of eager mode draws the same.
_SEED = 0x6B65707420627920

# Those that the step keeps, by identity.
_held: dict[int, torch.Generator] = {}


@contextlib.contextmanager
def holding(generator: torch.Generator) -> Iterator[None]:
    """Within it, and within `draws_of_held`, numbers of this generator are drawn from the run's own."""
    state = generator.get_state()
    generator.manual_seed(_SEED)
    _held[id(generator)] = generator
    try:
        yield
    finally:
        del _held[id(generator)]
        generator.set_state(state)


class _OfTheRun(TorchFunctionMode):
    """Leaves `generator=` out where it is one that the step keeps and has not seeded."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        held = _held.get(id(kwargs.get("generator")))
        if held is not None and held.initial_seed() == _SEED:
            note_drawn(said_line(innermost(sys._getframe(1), is_users)), "a torch.Generator")
            kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
        return func(*args, **kwargs)


def draws_of_held() -> Any:
    """Within it, what is drawn from generators that the step keeps is drawn from the run's own."""
    return _OfTheRun() if _held else contextlib.nullcontext()

"""Generators of random numbers of Python and NumPy: which of them a step has drawn from."""

from __future__ import annotations

import contextlib
import pickle
import random
import sys
from types import FrameType
from typing import Any, Callable, Iterable, Iterator, Optional

import numpy
import torch

from ... import package
from ...step.places import in_short
from ..values.drawn_by_torch import of_held
from ..values.numpy_generators import OF_KIND, StandInGenerator
from ..values.torch_generators import holding
from .places import Place

GENERATORS = (random.Random, numpy.random.RandomState, numpy.random.Generator, torch.Generator)


@contextlib.contextmanager
def held_by_torch(places: Iterable[Place]) -> Iterator[None]:
    """Within it, the generators in these places draw from the run's own seed."""
    known: dict[int, Any] = {}  # what takes the place of each
    with contextlib.ExitStack() as stack:
        for place in places:
            held = place.read()
            if type(held) in OF_KIND:
                stack.callback(place.put, held)
                place.put(known.setdefault(id(held), StandInGenerator(held, of_held)))
            elif isinstance(held, torch.Generator) and id(held) not in known:
                known[id(held)] = stack.enter_context(holding(held))
        yield


class Generators:
    """The global ones, and those of a step's own, as they are now.

    Args:
        own: what the step reaches, by name.
    """

    def __init__(self, own: Iterable[tuple[str, Any]]) -> None:
        self._of_all = (random._inst, numpy.random.mtrand._rand)
        self._own = list(own)
        self._before = self._states()

    def drawn_from(self) -> Optional[str]:
        """Which of them is in another state, as a message has it; None: none."""
        now = self._states()
        return next(
            (name for (name, s), (_, before) in zip(now, self._before) if s != before), None
        )

    def line_of_draw(self, run: Callable[[], object]) -> str:
        """The user's line on which `run`, another run of the step, first draws from one of them, or ""."""
        before, lines = self._states(), [""]

        def follow(frame: FrameType, event: str, value: Any) -> Any:
            path = frame.f_code.co_filename
            if not package.is_local(path):
                return None
            if self._states() == before:
                lines[0] = in_short(path, frame.f_lineno)
            return follow

        others = sys.gettrace()
        sys.settrace(follow)
        try:
            run()
        finally:
            sys.settrace(others)
        return lines[0] if self._states() != before else ""

    def _states(self) -> list[tuple[str, bytes]]:
        of_all = [("Python or NumPy", generator) for generator in self._of_all]
        own = [(f"{name}, a generator of its own", generator) for name, generator in self._own]
        return [(name, _state(generator)) for name, generator in (*of_all, *own)]


def _state(generator: Any) -> bytes:
    if isinstance(generator, torch.Generator):
        return pickle.dumps(generator.get_state().tolist())
    if isinstance(generator, numpy.random.Generator):
        return pickle.dumps(generator.bit_generator.state)
    is_pythons = isinstance(generator, random.Random)
    return pickle.dumps(generator.getstate() if is_pythons else generator.get_state())

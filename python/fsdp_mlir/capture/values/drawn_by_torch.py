"""Random numbers that a step draws from Python or NumPy, of which each step of a plan would get the
same: torch draws them (`draws`)."""

from __future__ import annotations

import contextlib
import functools
import random
import sys
from types import ModuleType
from typing import Any, Callable, Iterator, Optional
from unittest import mock

import numpy

from ...step.places import innermost, is_pythons, is_users, said_line
from .array_draws import arrays_by_torch
from .draws import OF_NUMPY, OF_PYTHON, NoDraw, note_drawn
from .torch_generators import draws_of_held
from .kinds import has_numbers
from .numpy_generators import BIT_GENERATORS, MAKERS, StandInGenerator, has_unknown, is_seeded
from .replaced_names import ReplacedNames
from .stand_in_types import StandInType, stand_in_for

# Of the run of a step that is on, or was the last: the generators that it has seeded, by identity, which
# give the same in each step and live as long as it, and where it has drawn what torch does not draw.
_seeded: dict[int, Any] = {}
_left: list[str] = []
# And where it has done so from a generator that it makes, without a seed that each step has.
_left_of_made: list[str] = []
_MADE = "a generator that it makes without a seed that is known"


def left_undrawn() -> str:
    """The line on which the last run of a step first drew what torch does not draw, or ""."""
    return next(iter(_left_of_made or _left), "")


def drew_of_made() -> Optional[str]:
    """What the last run of a step drew from that a step makes, where torch does not draw that; None:
    from nothing such."""
    return _MADE if _left_of_made else None


def _by_torch(original: Callable[..., Any], draw: Callable[..., Any], owner: Any = None) -> Any:
    """`draw` for the code of a user's, and of the libraries that the step calls, else `original`, which
    draws from `owner`, or without one from its first argument."""

    @functools.wraps(original)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        path = frame.f_code.co_filename
        if not is_users(path) or is_pythons(path):
            return original(*args, **kwargs)
        try:
            if id(args[0] if owner is None else owner) in _seeded:
                raise NoDraw
            result = draw(*args[owner is None :], **kwargs)
        except NoDraw:
            _left.append(said_line(frame))
            return original(*args, **kwargs)
        has_numbers(frame.f_globals)
        note_drawn(said_line(frame))
        return result

    return drawn


def _seeds(original: Callable[..., Any], owner: Any = None) -> Any:
    """`original`, which seeds a generator, with a note of that."""

    @functools.wraps(original)
    def seed(*args: Any, **kwargs: Any) -> Any:
        if has_unknown(args, kwargs):
            frame = innermost(sys._getframe(1), lambda path: not is_pythons(path))
            _left_of_made.append(said_line(frame))
            return
        generator, *given = args if owner is None else (owner, *args)
        if is_seeded(given, kwargs):
            _seeded[id(generator)] = generator
        return original(*args, **kwargs)

    return seed


def of_held(original: Callable[..., Any], draw: Callable[..., Any], generator: Any) -> Any:
    """What stands in for a method of a generator that the step has."""
    is_seed = original.__name__ == "seed"
    return _seeds(original, generator) if is_seed else _by_torch(original, draw, generator)


def _of_made(original: Callable[..., Any], draw: Callable[..., Any], generator: Any) -> Any:
    """What stands in for a method of a generator that the step has made without a seed."""

    @functools.wraps(original)
    def left(*args: Any, **kwargs: Any) -> Any:
        _left_of_made.append(said_line(sys._getframe(2)))
        return original(*args, **kwargs)

    return of_held(left, draw, generator)


def _makes(original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, which makes a generator, for the code of a user's: without a seed, one that draws by
    torch. A seed that differs from step to step counts as left undrawn, and so does what generators are
    made of, whose numbers nothing sees."""

    @functools.wraps(original, updated=())
    def make(*args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        if frame.f_code is StandInType.__call__.__code__:
            frame = frame.f_back
        path = frame.f_code.co_filename
        if not is_users(path) or is_pythons(path):
            return original(*args, **kwargs)
        if is_seeded(args, kwargs) and not has_unknown(args, kwargs):
            return original(*args, **kwargs)
        if original not in BIT_GENERATORS and not is_seeded(args, kwargs):
            return StandInGenerator(original(), _of_made)
        _left_of_made.append(said_line(frame))
        return original()

    return stand_in_for(original, make) if isinstance(original, type) else make


def _no_draw(*args: Any, **kwargs: Any) -> Any:
    raise NoDraw


_KEEPING_STATE = frozenset("getstate setstate get_state set_state get_bit_generator".split())


def _stand_in(name: str, original: Any, draws: dict[str, Any], owner: Any = None) -> Any:
    if name == "seed":
        return _seeds(original, owner)
    return _by_torch(original, draws.get(name, _no_draw), owner)


def _functions(module: ModuleType, generator: Any) -> dict[str, Any]:
    """The functions of a module that its own generator's methods are."""
    own = {name: f for name, f in vars(module).items() if getattr(f, "__self__", None) is generator}
    return {"seed": module.seed} | {n: f for n, f in own.items() if n not in _KEEPING_STATE}


# What stands in for the functions of Python's or NumPy's own generator.
_STAND_INS = [
    (original, _stand_in(name, original, draws, generator))
    for module, draws, generator in (
        (random, OF_PYTHON, random._inst),
        (numpy.random, OF_NUMPY, numpy.random.mtrand._rand),
    )
    for name, original in _functions(module, generator).items()
]
_STAND_INS += [(maker, _makes(maker)) for maker in (*MAKERS, *BIT_GENERATORS)]
_EVERYWHERE = ReplacedNames(_STAND_INS)
# And for the methods of Python's generators.
_METHODS = {
    name: _stand_in(name, getattr(random.Random, name), OF_PYTHON)
    for name in _functions(random, random._inst)
}


@contextlib.contextmanager
def drawn_by_torch() -> Iterator[None]:
    """Within it, functions of Python's `random` and of `numpy.random` draw by torch, by whatever name a
    module has them, and so do generators of Python's. A note says where one is called."""
    with contextlib.ExitStack() as stack:
        stack.callback(_seeded.update, dict(_seeded))
        stack.callback(_seeded.clear)
        _seeded.clear()
        _left.clear()
        _left_of_made.clear()
        stack.enter_context(_EVERYWHERE.replaced())
        for name, method in _METHODS.items():
            stack.enter_context(mock.patch.object(random.Random, name, method))
        stack.enter_context(arrays_by_torch())
        stack.enter_context(draws_of_held())
        yield

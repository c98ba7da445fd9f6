"""Numbers of Python's that tell what a step does with them: which of its lines decide by one, and
whether it computes with one."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import math
import operator
import sys
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence
from unittest import mock

from torch.overrides import TorchFunctionMode

from ...step.places import innermost, is_users, said_line
from .places import Place

# A place in code that asks for the truth of a number: its code object, which instruction, and what it is
# told. `n in (2, 1)` asks of each member: with all answers turned it would stay true.
Site = tuple[Any, int, bool]
# So often is one answer turned around, lest a loop that waits for the other one never ends.
_MOST_TURNS = 64


@dataclasses.dataclass(frozen=True)
class Decision:
    """What a step decides by watched numbers.

    Attributes:
        line: the user's, as `file.py:31`.
        numbers: the numbers' names.
    """

    line: str
    numbers: frozenset[str]


def length_of(place: Place) -> str:
    """The name of the length of the container at `place`."""
    return f"len({place.name})"


class Watch:
    """What is seen of watched numbers while a step runs.

    Attributes:
        decisions: what the step has decided by them, each site once.
        within: the names of those that the call of PyTorch's has which runs now.

    Args:
        turned: sites whose decisions fall the other way.
        growing: places of containers whose lengths are watched.
    """

    def __init__(
        self, turned: frozenset[Site] = frozenset(), growing: Sequence[Place] = ()
    ) -> None:
        self.decisions: dict[Site, Decision] = {}
        self.within: frozenset[str] = frozenset()
        self._growing = growing
        self._turned = turned
        self._turns = 0

    def decide(self, natural: bool, numbers: frozenset[str]) -> bool:
        """The truth of a number, which is `natural` unless its site is turned."""
        frame = innermost(sys._getframe(1), is_users)
        if frame is None:
            return natural
        site = frame.f_code, frame.f_lasti, natural
        if site not in self.decisions:
            self.decisions[site] = Decision(said_line(frame), numbers)
        if site not in self._turned or self._turns == _MOST_TURNS:
            return natural
        self._turns += 1
        return not natural

    def length(self, original: Callable[[Any], int]) -> Callable[[Any], int]:
        """`len`, which gives a watched number for a container whose length is one."""

        def length(value: Any) -> int:
            number = original(value)
            for place in self._growing:
                if place.read() is value:
                    return watched(number, frozenset({length_of(place)}))
            return number

        return length if self._growing else original


_watch: Optional[Watch] = None


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Within it, watched numbers tell `watch` what is done with them."""
    global _watch
    with contextlib.ExitStack() as stack:
        for name in ("max", "min"):
            choosing = _choosing(getattr(builtins, name))
            stack.enter_context(mock.patch.object(builtins, name, choosing))
        stack.enter_context(mock.patch.object(builtins, "len", watch.length(len)))
        stack.enter_context(_CallsWithNumbers(watch))
        _watch = watch
        try:
            yield
        finally:
            _watch = None


class _CallsWithNumbers(TorchFunctionMode):
    """Notes which calls of PyTorch's have watched numbers, and gives them plain ones."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        numbers: set[str] = set()
        args, kwargs = _plain_parts((args, kwargs or {}), numbers)
        outer = self._watch.within
        self._watch.within = outer | numbers
        try:
            return func(*args, **kwargs)
        finally:
            self._watch.within = outer


def _plain_parts(value: Any, numbers: set[str]) -> Any:
    """`value` with plain numbers for the watched ones in it, whose names are added to `numbers`."""
    if isinstance(value, _Watched):
        numbers |= value.numbers
        return plain(value)
    if isinstance(value, slice):
        return slice(*(_plain_parts(v, numbers) for v in (value.start, value.stop, value.step)))
    if type(value) in (tuple, list):
        return type(value)(_plain_parts(member, numbers) for member in value)
    if type(value) is dict:
        return {key: _plain_parts(member, numbers) for key, member in value.items()}
    return value


class _Watched:
    """What is of watched numbers of both kinds; `numbers` has names of those it comes from."""

    plain: Callable[..., Any]
    numbers: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        natural = bool(plain(self))
        return natural if _watch is None else _watch.decide(natural, self.numbers)


class _WatchedInt(_Watched, int):
    plain = staticmethod(int.__int__)
    __hash__ = int.__hash__


class _WatchedFloat(_Watched, float):
    plain = staticmethod(float.__float__)
    __hash__ = float.__hash__


def watched(value: Any, numbers: frozenset[str]) -> Any:
    """`value` as a number that comes from the named ones; what is no number stays as it is."""
    if isinstance(value, (int, float)):
        number = (_WatchedFloat if isinstance(value, float) else _WatchedInt)(value)
        number.numbers = numbers
        return number
    return tuple(watched(v, numbers) for v in value) if isinstance(value, tuple) else value


def plain(value: Any) -> Any:
    """The plain number that a watched one is; what is none stays as it is."""
    return value.plain(value) if isinstance(value, _Watched) else value


def _names_in(values: Iterable[Any]) -> frozenset[str]:
    return frozenset().union(*(v.numbers for v in values if isinstance(v, _Watched)))


def _computing(function: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    def method(*operands: Any) -> Any:
        if not all(isinstance(operand, (int, float)) for operand in operands):
            return NotImplemented  # a tensor computes it
        values = map(plain, reversed(operands) if swapped else operands)
        return watched(function(*values), _names_in(operands))

    return method


def _choosing(choose: Callable[..., Any]) -> Callable[..., Any]:
    """`max` or `min`, of whose numbers none is decided by."""

    def choice(*args: Any, **kwargs: Any) -> Any:
        numbers = frozenset() if kwargs or len(args) < 2 else _names_in(args)
        if not numbers or not all(isinstance(value, (int, float)) for value in args):
            return choose(*args, **kwargs)
        return watched(choose(*map(plain, args)), numbers)

    return choice


for _name in "add sub mul truediv floordiv mod pow".split():
    _function = getattr(operator, _name)
    setattr(_Watched, f"__{_name}__", _computing(_function))
    setattr(_Watched, f"__r{_name}__", _computing(_function, swapped=True))
setattr(_Watched, "__divmod__", _computing(divmod))
setattr(_Watched, "__rdivmod__", _computing(divmod, swapped=True))
for _name in "eq ne lt le gt ge neg pos abs".split():
    setattr(_Watched, f"__{_name}__", _computing(getattr(operator, _name)))
for _name, _function in {
    "round": round,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
}.items():
    setattr(_Watched, f"__{_name}__", _computing(_function))

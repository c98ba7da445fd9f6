"""The Python state that a step changes when it runs: of the model's modules, and of what its
functions refer to."""

from __future__ import annotations

import array
import copy
import dataclasses
import numbers
import operator
from typing import Any, Iterable, Iterator, Union

import numpy as np
import torch

from ...errors import warn
from ..values.python_floats import ReadNumber, is_number
from .function_caches import FunctionCaches
from .iterators import Iterators
from .places import MISSING, Found, Held, Member, Place, found_tensors, is_nothing, wholes_of
from .reached import CONTAINERS, Reached
from .watched_numbers import plain


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a container holds."""

    container: Any

    @property
    def identity(self) -> tuple[int, Any]:
        """As that of a place, which no other slot has."""
        return id(self.container), Contents

    def read(self) -> Any:
        return _copied(self.container)

    def put(self, members: Any) -> None:
        """Puts these in the place of those that it holds."""
        self.container.clear()
        by_key = isinstance(self.container, (dict, set))
        (self.container.update if by_key else self.container.extend)(members)


@dataclasses.dataclass(frozen=True)
class ArrayElements:
    """What an array holds, NumPy's or another one."""

    array: Any

    @property
    def identity(self) -> tuple[int, Any]:
        """As that of a place, which no other slot has."""
        return id(self.array), ArrayElements

    def read(self) -> Any:
        return copy.copy(self.array)

    def put(self, elements: Any) -> None:
        self.array[... if isinstance(self.array, np.ndarray) else slice(None)] = elements


# Where a step has left something, and what.
Slots = list[tuple[Union[Place, Contents, ArrayElements], Any]]
# Elements of an array that is looked at; a larger one holds data.
_LARGEST = 1000


class PythonState:
    """What can be seen of that state now, to be compared and put back.

    Args:
        loss: the module that is captured, with the model and its functions.
    """

    def __init__(self, loss: torch.nn.Module) -> None:
        self._loss = loss
        self._caches = FunctionCaches()
        reached = Reached(loss)
        self._places = {place.identity: place for place in reached.places}
        self._reached = reached
        self._iterators = Iterators(self._places.values())
        self._values = {known: (p.is_set, p.read()) for known, p in self._places.items()}
        self._contents = {
            known: (value, _copied(value))
            for known, (_, value) in self._values.items()
            if isinstance(value, CONTAINERS)
        }
        self._arrays = {
            known: (value, copy.copy(value))
            for known, (_, value) in self._values.items()
            if _is_array(value)
        }
        modules = [
            (path, module)
            for path, module in loss.model.named_modules()
            if not isinstance(module, torch.jit.ScriptModule)  # whose tables are none of Python's
        ]
        self._buffers = {path: (m._buffers, dict(m._buffers)) for path, m in modules}
        self._modules = {path: (m._modules, dict(m._modules)) for path, m in modules}

    @property
    def generators(self) -> Iterable[tuple[str, Any]]:
        """Those of random numbers, with their names."""
        return self._reached.generators

    def _new(self) -> list[Place]:
        """Places that a step has made."""
        new = (p for p in Reached(self._loss).places if p.identity not in self._places)
        return [place for place in new if self._reached.lacked(place)]

    def changed(self) -> list[str]:
        """Names of what is another value, or holds other values, than before.

        Raises:
            ExportError: an iterator is further on, which cannot be put back.
        """
        self._iterators.check_unmoved()
        changed = [place.name for place in self._new()]
        for known, place in self._places.items():
            if self._is_other(place):
                changed.append(place.name)
            elif known in self._contents and not _same_contents(*self._contents[known]):
                changed.append(place.name)
        changed += [place.name for place in self.arrays()]
        changed += [place.name for place in self._other_modules()]
        return [*changed, *(found.place.name for found in self._new_buffers())]

    def look(self) -> list[Found]:
        """All places, and the members of containers that hold others now, each with what it had and has.
        It goes through all that the step reaches."""
        return [*self._with_new(), *self._changed_members()]

    def numbers(self) -> list[Found]:
        """Where a place has another number now."""
        return numbers_in(self._with_new())

    def _with_new(self) -> Iterator[Found]:
        """All places, with what they had and have."""
        new = ((p, p.default) for p in self._new() if self._reached.has_table_of(p))
        known = ((self._places[known], value) for known, (_, value) in self._values.items())
        return (Found(place, before, place.read()) for place, before in (*known, *new))

    def tensors(self) -> list[Found]:
        """As `numbers`, of tensors, in places and among members, that the same place could hold; those
        with a gradient where there are no others."""
        found = [found for found in self.tensors_in(self.look()) if not found.is_made]
        with_gradient = wholes_of(one for one in found if one.now.requires_grad)
        others = [one for one in found if one.place.whole.identity not in with_gradient]
        return others or found

    def tensors_in(self, looked: Iterable[Found]) -> list[Found]:
        """The new tensors among what `look` gave, and new buffers, whatever was there before."""
        every = (*looked, *self._new_buffers())
        found = (one for one in every if not isinstance(one.place.table, Held))  # of a tuple
        return [tensor for one in found for tensor in found_tensors(*one)]

    def _new_buffers(self) -> Iterator[Found]:
        for path, (table, before) in self._buffers.items():
            for key, now in table.items():
                if now is not None and before.get(key) is None:
                    yield Found(_place_in(path, table, key), before.get(key, MISSING), now)

    def _other_modules(self) -> list[Place]:
        """Where a module is another one, as where the step makes one."""
        return [
            _place_in(path, table, key)
            for path, (table, before) in self._modules.items()
            for key in {**before, **table}
            if table.get(key) is not before.get(key)
        ]

    def _changed_members(self) -> Iterator[Found]:
        for known, (value, contents) in self._contents.items():
            if _same_contents(value, contents):
                continue
            before = _by_key(contents)
            for key, now in _by_key(value).items():
                if key in before or isinstance(value, dict):
                    name = f"{self._places[known].name}[{key!r}]"
                    yield Found(Member(name, value, key), before.get(key, MISSING), now)

    def unwatched(self) -> dict[Any, Any]:
        """What nobody can watch being read: values that are no numbers, in places and under the keys
        of dicts; each by where it is."""
        found: dict[Any, Any] = {}
        for place in (*self._places.values(), *self._new()):
            value = place.read()
            if _is_value(value):
                found[place.identity] = value
            elif isinstance(value, dict):
                _, known = self._contents.get(place.identity, (None, value))
                if len(value) == len(known) and list(value) != list(known):
                    found[place.identity] = tuple(value)
                values = {key: member for key, member in value.items() if _is_value(member)}
                found |= {(place.identity, key): member for key, member in values.items()}
        return found

    def arrays(self) -> list[Place]:
        """Where an array has other elements now."""
        arrays = self._arrays.items()
        return [self._places[k] for k, (now, old) in arrays if _bytes(now) != _bytes(old)]

    def lengths(self) -> list[tuple[Place, int]]:
        """Where a container has another number of members now, and how many."""
        before = {known: len(contents) for known, (_, contents) in self._contents.items()}
        places = [*self._places.values(), *self._new()]
        lengths = [(p, len(p.read())) for p in places if isinstance(p.read(), CONTAINERS)]
        return [(p, length) for p, length in lengths if before.get(p.identity) != length]

    def sequences_in(self, looked: Iterable[Found]) -> dict[str, int]:
        """The containers that hold something else now, and the new tuples among what `look` gave, by name,
        and how many members each has."""
        contents = self._contents.items()
        changed = {
            self._places[known].name: len(value)
            for known, (value, before) in contents
            if not _same_contents(value, before)
        }
        tuples = (f for f in looked if isinstance(f.now, tuple) and f.now is not f.before)
        return changed | {one.place.name: len(one.now) for one in tuples}

    def listed_numbers(self) -> set[int]:
        """Whole numbers that containers have, as places or as members."""
        listed = (number for _, contents in self._contents.values() for number in contents)
        return {number for number in listed if isinstance(number, int)}

    def settle_numbers(self, step: int = 0) -> None:
        """Puts numbers in the place of those that a capture has left without values, others behind each
        step."""
        for place, before, now in self.numbers():
            if isinstance(now, ReadNumber):
                was = 0 if is_nothing(before) else before
                place.put(was / 2 + 1 + step if now.has_fraction else was + 1 + step)

    def left(self) -> Slots:
        """Where another value is now, in places and among the members of containers; and which."""
        places = [*self._new(), *(p for p in self._places.values() if self._is_other(p))]
        contents = [
            Contents(value)
            for value, before in (*self._contents.values(), *self._modules.values())
            if not _same_contents(value, before)
        ]
        elements = [ArrayElements(self._arrays[place.identity][0]) for place in self.arrays()]
        return [(slot, slot.read()) for slot in (*places, *contents, *elements)]

    def _is_other(self, place: Place) -> bool:
        is_set, value = self._values[place.identity]
        return place.is_set != is_set or not _same(place.read(), value)

    def restore(self) -> None:
        """Puts everything back to what it was."""
        self._caches.forget_captured()
        for place in self._new():
            place.put(None, is_set=False)
        for known, (is_set, value) in self._values.items():
            place = self._places[known]
            if place.is_set != is_set or place.read() is not value:  # others may be fixed
                place.put(value, is_set)
        for kept, elements in self._arrays.values():
            ArrayElements(kept).put(elements)
        tables = *self._buffers.values(), *self._modules.values()
        for value, contents in (*tables, *self._contents.values()):
            if not _same_contents(value, contents):
                Contents(value).put(contents)


def numbers_in(looked: Iterable[Found]) -> list[Found]:
    """Where another number is now, among what `PythonState.look` gave."""
    return [found for found in looked if _is_other_number(found.before, found.now)]


def warn_changed(names: list[str], is_seen: bool = True) -> None:
    """Warns that the step changes Python state, which the exported one does not. Unless `is_seen`, it
    cannot be told whether the next step reads it."""
    if names and not is_seen:
        warn(
            f"the step changes Python state of {', '.join(names)}, and the exported step keeps "
            "the value of now; what must change from step to step is a buffer changed in place"
        )
    elif names:
        warn(
            f"the step changes Python state of {', '.join(names)}, which stays as it is now while a "
            "plan runs; no step computes with what an earlier one leaves there"
        )


def _place_in(path: str, table: dict[str, Any], key: str) -> Place:
    """A place in a table of the module with this path, as its buffers are one."""
    return Place(".".join(filter(None, ("model", path, key))), table, key)


def _copied(value: Any) -> Any:
    """What a container holds, in one of Python's own: another's constructor may take something else, and
    another's `[key]` give something else."""
    if isinstance(value, dict):
        return dict(value.items())
    return set(value) if isinstance(value, set) else list(value)


def _is_array(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.size <= _LARGEST and value.flags.writeable
    return isinstance(value, (array.array, bytearray)) and len(value) <= _LARGEST


def _bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytearray) else value.tobytes()


def _is_value(value: Any) -> bool:
    """Whether what code reads of it is in it alone, does not change, and is no number of Python's."""
    if isinstance(value, (tuple, frozenset)):
        return all(is_number(member) or _is_value(member) for member in value)
    kinds = str, bytes, numbers.Number, np.generic
    return isinstance(value, kinds) and not is_number(plain(value))


def _is_other_number(before: Any, now: Any) -> bool:
    was = is_nothing(before) or is_number(before)
    return was and is_number(now) and not _same(now, before)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return type(one) is type(other) and isinstance(one, (bool, int, float, str)) and one == other


def _by_key(value: Any) -> dict[Any, Any]:
    """What a container has, by the key it is read at; a set has nothing to be read."""
    if isinstance(value, set):
        return {}
    return value if isinstance(value, dict) else dict(enumerate(value))


def _same_contents(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, dict):  # whose order counts
        return list(one) == list(other) and all(map(_same, one.values(), other.values()))
    if isinstance(one, set):
        return one == other
    return all(map(operator.is_, one, other)) or all(map(_same, one, other))

"""Places in which Python has values, and what is found there."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Iterable, Iterator, NamedTuple

import torch

MISSING = object()  # what a place reads that has nothing


def is_nothing(value: object) -> bool:
    """Whether this is what a place reads in which a step has yet to make something."""
    return value is None or value is MISSING


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a value stands: `table[key]`.

    Attributes:
        name: what a user calls it.
        default: what is read where the table has no such key: a class's attribute.
        owner: the object whose attribute it is, or None.
    """

    name: str
    table: Any
    key: Any
    default: Any = MISSING
    owner: Any = None

    @property
    def identity(self) -> tuple[int, Any]:
        """Equal for places that are one."""
        return id(self.holder), self.key

    @property
    def holder(self) -> Any:
        """What has the value: the table, or the class, the cell or the object that it is of."""
        return self.table.cell if isinstance(self.table, OwnTable) else self.table

    @property
    def whole(self) -> Place:
        """The place that is put back where this one was changed."""
        return self

    @property
    def is_set(self) -> bool:
        """Whether the table itself has the value."""
        return self.key in self.table

    def read(self) -> Any:
        """The value; what is not there has a value of its own, which nothing else is."""
        return self.table[self.key] if self.is_set else self.default

    def put(self, value: Any, is_set: bool = True) -> None:
        """Puts a value there, or, unless `is_set`, takes it away, as what was read of an empty place."""
        if is_set and value is not MISSING:
            self.table[self.key] = value
        else:
            self.table.pop(self.key, None)


class OwnTable(dict):
    """A table for what something else than a dict holds: `cell`."""

    cell: Any


class Attributes(OwnTable):
    """Attributes of a class, or of the cell of a variable, as a table."""

    def __init__(self, owner: Any) -> None:
        self.cell = owner

    def __contains__(self, key: object) -> bool:
        return hasattr(self.cell, str(key))

    def __getitem__(self, key: str) -> Any:
        return getattr(self.cell, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self.cell, key, value)

    def pop(self, key: str, default: Any = None) -> None:
        delattr(self.cell, key)


class Slots(OwnTable):
    """What an object has in the slots of a class of its own, as a table: what the class makes of names,
    as frozen ones and properties do, is left aside."""

    def __init__(self, owner: Any, kind: type) -> None:
        self.cell = owner
        self._slots = slots_of(kind)

    def __contains__(self, key: object) -> bool:
        return is_filled(self.cell, self._slots[str(key)])

    def __getitem__(self, key: str) -> Any:
        return self._slots[key].__get__(self.cell)

    def __setitem__(self, key: str, value: Any) -> None:
        self._slots[key].__set__(self.cell, value)

    def pop(self, key: str, default: Any = None) -> None:
        self._slots[key].__delete__(self.cell)


class Held(OwnTable):
    """A container that something else than a name holds, as a table of it alone."""

    def __init__(self, container: Any) -> None:
        super().__init__({0: container})
        self.cell = container


class Member(Place):
    """A member of a list or dict. A list keeps those that it has."""

    @property
    def is_set(self) -> bool:
        return not isinstance(self.table, dict) or self.key in self.table

    def read(self) -> Any:
        """The member, also where `[key]` of the dict's class makes something of it."""
        if isinstance(self.table, dict):
            return dict.get(self.table, self.key, self.default)
        return super().read()


@dataclasses.dataclass(frozen=True)
class Item(Place):
    """An item of the tuple or list that stands at another place, where each step puts a new one.

    Attributes:
        table: that place.
        key: the item's number.
        kind: `tuple` or `list`.
        size: how many items there are.
    """

    kind: type = tuple
    size: int = 0

    @property
    def identity(self) -> tuple[Any, Any]:
        return self.table.identity, self.key

    @property
    def whole(self) -> Place:
        return self.table.whole

    @property
    def is_set(self) -> bool:
        return self.table.is_set

    def read(self) -> Any:
        """The item, or what stands there instead of all of them."""
        items = self.table.read()
        return items[self.key] if self._has_items(items) else items

    def put(self, value: Any, is_set: bool = True) -> None:
        items = self.table.read()
        new = list(items) if self._has_items(items) else [None] * self.size
        new[self.key] = value
        self.table.put(self.kind(new))

    def _has_items(self, value: Any) -> bool:
        return type(value) is self.kind and len(value) == self.size


class Found(NamedTuple):
    """What was found in a place: before steps, and after them.

    Attributes:
        before: None where nothing was made yet, or MISSING where not even that was there.
    """

    place: Place
    before: Any
    now: Any

    @property
    def is_made(self) -> bool:
        """Whether it is of another kind than before, so that one buffer cannot be both."""
        if isinstance(self.now, torch.Tensor):
            return not may_hold(self.before, self.now)
        return is_nothing(self.before)


def wholes_of(found: Iterable[Found]) -> set[Any]:
    """The places that are put back where these were changed, by their identities."""
    return {one.place.whole.identity for one in found}


def may_hold(before: Any, now: torch.Tensor) -> bool:
    """Whether one buffer may be both."""
    if not isinstance(before, torch.Tensor):
        return False
    return (before.shape, before.dtype) == (now.shape, now.dtype)


def found_tensors(place: Place, before: Any, now: Any) -> list[Found]:
    """The tensor that is new in a place, or those of a new tuple or list of tensors, each for itself."""
    if now is before or not _is_of_tensors(now):
        return []
    if isinstance(before, torch.Tensor) and not isinstance(now, torch.Tensor):
        return []
    found = list(_found_items(place, before, now))
    if any(one.is_made for one in found):  # then all of them are
        found = [one._replace(before=before) for one in found]
    return found


def _found_items(place: Place, before: Any, now: Any) -> Iterator[Found]:
    if isinstance(now, torch.Tensor):
        yield Found(place, before, now)
        return
    kind, size = type(now), len(now)
    is_alike = type(before) is kind and len(before) == size
    for key, item in enumerate(now):
        part = Item(f"{place.name}[{key}]", place, key, kind=kind, size=size)
        yield from _found_items(part, before[key] if is_alike else MISSING, item)


def _is_of_tensors(value: Any) -> bool:
    if type(value) in (tuple, list):
        return len(value) > 0 and all(map(_is_of_tensors, value))
    return isinstance(value, torch.Tensor)


def slots_of(kind: type) -> dict[str, Any]:
    """The slots of a class itself, by their names."""
    return {k: slot for k, slot in vars(kind).items() if inspect.ismemberdescriptor(slot)}


def is_filled(owner: Any, slot: Any) -> bool:
    try:
        slot.__get__(owner)
    except AttributeError:
        return False
    return True

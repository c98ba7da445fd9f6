"""Functions and classes that others stand in for while a step is captured, by whatever name a module has
them: `from random import random` binds the function itself."""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from typing import Any, Iterable, Iterator

_Name = tuple[dict[str, Any], str]  # a module's table, and a name in it


class ReplacedNames:
    """What is to be replaced, and under which names modules have it. Each run of a step asks for these,
    and to go through all modules would take as long as a small step: names are looked for where there is
    another module than before, and in `__main__`, whose names a notebook adds cell by cell, each time.
    """

    def __init__(self, stand_ins: Iterable[tuple[Any, Any]]) -> None:
        """Each original, with what stands in for it."""
        # By the identity of the originals, which live as long as this.
        self._stand_ins = {id(original): (original, other) for original, other in stand_ins}
        # Where this is within another one of its kind, modules have the stand-ins already.
        self._ids = {id(value) for pair in self._stand_ins.values() for value in pair}
        self._looked_at: list[ModuleType] = []
        self._names: list[_Name] = []

    @contextlib.contextmanager
    def replaced(self) -> Iterator[None]:
        """Within it, modules have the stand-ins under these names."""
        replaced = []
        try:
            # Names alone, and not whole tables, which a step may change.
            for table, name in self._found():
                original, stand_in = self._stand_ins[id(table[name])]
                table[name] = stand_in
                replaced.append((table, name, original))
            yield
        finally:
            for table, name, original in replaced:
                table[name] = original

    def _found(self) -> list[_Name]:
        main = vars(sys.modules["__main__"])
        modules = list(sys.modules.values())
        if modules != self._looked_at:
            having = (module for module in modules if hasattr(module, "__dict__"))
            tables = {id(vars(module)): vars(module) for module in having}  # each once
            tables.pop(id(main), None)
            self._names = [name for table in tables.values() for name in self._names_in(table)]
            self._looked_at = modules
        names = self._names + self._names_in(main)
        return [(table, name) for table, name in names if id(table.get(name)) in self._stand_ins]

    def _names_in(self, table: dict[str, Any]) -> list[_Name]:
        ids = self._ids
        return [(table, name) for name, value in list(table.items()) if id(value) in ids]

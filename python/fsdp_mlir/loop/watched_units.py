"""Notices what a script says of its units after the step was compiled: the plan has what they
were."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any, Optional

from torch import nn

from ..step.names import plain_path
from ..step.unit import Unit, unit_of

# What changes a step's numbers, and what changes only when a plan gathers and frees.
_NUMBERS = ("gradient_divide_factor", "forward_methods")
_HINTS = ("reshard_after_forward", "forward_prefetch", "backward_prefetch")


@dataclasses.dataclass
class UnitChange:
    """What was said of a unit, whether it would change numbers, and the script's file and line."""

    text: str
    is_number: bool
    line: Optional[tuple[str, int]]


class WatchedUnits:
    """The units of a model, as they were when its step was compiled. None is kept alive."""

    def __init__(self, model: nn.Module) -> None:
        self._model = weakref.ref(model)
        self._units = {
            id(unit): (name, weakref.ref(unit), _said(unit)) for name, unit in _named(model)
        }
        self._changes = Unit.changes

    def changes(self) -> list[UnitChange]:
        """What is other than it was. It costs nothing where no script has said anything since."""
        if self._changes == Unit.changes or (model := self._model()) is None:
            return []
        changes = self._of_attributes() + self._new_units(model)
        if not any(change.is_number for change in changes):
            self._changes = Unit.changes
        return changes

    def _of_attributes(self) -> list[UnitChange]:
        changes = []
        for name, reference, before in self._units.values():
            if (unit := reference()) is None:
                continue
            now = _said(unit)
            for attribute in filter(lambda a: before[a] != now[a], _NUMBERS + _HINTS):
                text = f"{attribute} of {_shown(name)} was {before[attribute]!r} when the step was "
                text += f"compiled and is {now[attribute]!r} now"
                if attribute not in ("gradient_divide_factor", "reshard_after_forward"):
                    text = f"{attribute} of {_shown(name)} was set after the step was compiled"
                is_number = attribute in _NUMBERS
                changes.append(UnitChange(text, is_number, unit.lines.get(attribute)))
        return changes

    def _new_units(self, model: nn.Module) -> list[UnitChange]:
        return [
            UnitChange(
                f"fully_shard made {_shown(name)} after the step was compiled",
                True,
                unit.lines.get("modules"),
            )
            for name, unit in _named(model)
            if id(unit) not in self._units or self._units[id(unit)][1]() is not unit
        ]


def _named(model: nn.Module) -> list[tuple[str, Unit]]:
    units = {}
    for path, module in model.named_modules():
        if (unit := unit_of(module)) is not None and id(unit) not in units:
            units[id(unit)] = plain_path(path), unit
    return list(units.values())


def _said(unit: Unit) -> dict[str, Any]:
    """What a script can say of a unit after `fully_shard`; other units by their identity."""
    return {
        "gradient_divide_factor": unit.gradient_divide_factor,
        "forward_methods": [(id(module), name) for module, name in unit.forward_methods],
        "reshard_after_forward": unit.reshard_after_forward,
        "forward_prefetch": [id(other) for other in unit.forward_prefetch],
        "backward_prefetch": [id(other) for other in unit.backward_prefetch],
    }


def _shown(name: str) -> str:
    return f"the unit {name}" if name else "the outermost unit"

"""What a step leaves in Python, as the next one finds it: numbers, and tensors in the places of those
without values, by which a capture of that step can be told to read them."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .known_values import MEMBERS, StandIns, held_tensors, known_value
from .python_state import PythonState


class LeftBehind:
    """What `run` leaves of a step, which runs on tensors without values.

    Attributes:
        is_any: whether it leaves anything.
        found: the tensors that the next step finds.
        tables: those beside them that are constants of the code, by identity.

    Args:
        state: Python's before the step.
        run: runs the step.
    """

    def __init__(self, state: PythonState, run: Callable[[], Any]) -> None:
        self.found: list[torch.Tensor] = []
        self._state = state
        run()
        slots = state.changed_slots()
        self.is_any = bool(slots)
        left = [(slot, slot.read()) for slot in slots]
        left = [(slot, value) for slot, value in left if _may_be_found(value)]
        caches = self._caches([(slot, value) for slot, value in left if _is_known(value)], run)
        self.found.clear()
        self._left = [(slot, self._found(value)) for slot, value in left]
        # A step may read a constant of the code that it else makes.
        of_caches = [held_tensors(value) for slot, value in self._left if id(slot) in caches]
        self.tables = {id(tensor): tensor for tensors in of_caches for tensor in tensors}
        self.found = [tensor for tensor in self.found if id(tensor) not in self.tables]
        state.restore()

    def put(self) -> None:
        """Puts it where the step leaves it, in what `state` was before."""
        for slot, value in self._left:
            slot.put(value)

    def _caches(self, known: list[tuple[Any, Any]], run: Callable[[], Any]) -> set[int]:
        """Identities of where a step leaves constants of the code that the next one does not change."""
        if not known:
            return set()
        before = [_known_values(value) for _, value in known]
        self._state.restore()
        for slot, value in known:
            slot.put(self._found(value))
        run()
        after = [_known_values(slot.read()) for slot, _ in known]
        return {id(slot) for (slot, _), a, b in zip(known, before, after) if _are_equal(a, b)}

    def _found(self, value: Any) -> Any:
        """`value` as the next step finds it."""
        if isinstance(value, FakeTensor):
            found = known_value(value)
            if found is None and isinstance(value.fake_mode, StandIns):
                found = torch.zeros(value.shape, dtype=value.dtype)
            elif found is None:  # the model's own have no values either
                found = torch.zeros_like(value)
            self.found.append(found)
            return found
        if type(value) in MEMBERS:
            return type(value)(map(self._found, value))
        if type(value) is dict:
            return {key: self._found(member) for key, member in value.items()}
        return value


def _may_be_found(value: Any) -> bool:
    """Whether `value` can be put where a step finds it: a number, tensors, or what holds tensors, but
    not a parameter. Of numbers that lists and dicts hold `late_decisions` tells."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return True
    return not isinstance(value, torch.nn.Parameter) and any(True for _ in held_tensors(value))


def _known_values(value: Any) -> list[Optional[torch.Tensor]]:
    """Of each tensor in `value`, what is known of it."""
    return [known_value(t) if isinstance(t, FakeTensor) else t for t in held_tensors(value)]


def _is_known(value: Any) -> bool:
    values = _known_values(value)
    return bool(values) and all(known is not None for known in values)


def _are_equal(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(
        b is not None and a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(one, other)
    )

"""Numbers of a parameter group that a step changes.

Such a number is kept as a state of one number that all parameters of the group share. It counts the
steps, or else follows from what it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Collection, Mapping, NoReturn, Optional

import torch

from .numbers import Number, plain_number, same_value
from .trace import Trace
from .values import Expr, reached

_PREFIX = "param_groups."


def state_of_entry(key: str) -> str:
    """The name that an entry of a group has among the states of its parameters."""
    return _PREFIX + key


def entry_of_state(name: str) -> Optional[str]:
    """The entry of a group that a state stands for; None: it is a state of the parameter."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


def described(name: str) -> str:
    """A state, as errors speak of it."""
    key = entry_of_state(name)
    return f"its state {name!r}" if key is None else f"{key!r} of its parameter groups"


@dataclass
class KeptEntry:
    """An entry that steps change; `dtype` is that of a tensor which holds the number."""

    dtype: Optional[torch.dtype]

    def found(self, trace: Trace, number: Expr) -> Any:
        """The value that a step finds in an entry, which is `number`."""
        if self.dtype is None:
            return Number(trace, number)
        return trace.make((), (), self.dtype, number)


def options_of(group: Mapping[str, Any]) -> dict[str, Any]:
    """All but the parameters."""
    return {key: value for key, value in group.items() if key != "params"}


def plain_entries(options: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """A group's options: hyperparameters that are tensors are numbers.

    `foreach` is followed as the for-loop. On the CPU most optimizers then run the same kernels,
    on one tensor after the other; RAdam, NAdam, ASGD and Adafactor round otherwise. SGD runs
    the same ones with `fused`, but that its first step says so.
    """
    for key, value in options.items():
        if isinstance(value, (tuple, list)):
            options[key] = type(value)(map(plain_number, value))
        else:
            options[key] = plain_number(value)
    if "foreach" in options:
        options["foreach"] = False
    if isinstance(optimizer, torch.optim.SGD):
        options["fused"] = False
    return options


def kept_entries(entries: Mapping[str, Any]) -> dict[str, KeptEntry]:
    """The entries that steps change."""
    return {key: value for key, value in entries.items() if isinstance(value, KeptEntry)}


def drop_entries(states: dict[str, Expr], but: Collection[str]) -> None:
    """Leaves out the numbers of a group that no step changes."""
    for name in list(states):
        key = entry_of_state(name)
        if key is not None and key not in but:
            del states[name]


class Entries(dict):
    """A parameter group while a step runs.

    Attributes:
        writes: how often each entry that was there was given another value.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.writes: dict[str, int] = {}

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self:
            self.writes[key] = self.writes.get(key, 0) + 1
        super().__setitem__(key, value)


@dataclass
class Left:
    """What a step leaves of a group: its numbers, what they were before the first step, and those
    that steps change."""

    numbers: dict[str, Expr]
    begins: dict[str, Expr]
    kept: dict[str, KeptEntry]


def entries_left(
    trace: Trace,
    group: Entries,
    given: Mapping[str, Any],
    kept: Mapping[str, KeptEntry],
    scheduled: Collection[str],
    refuse: Callable[[str], None],
    refuse_tensor: Callable[[str], NoReturn],
) -> Left:
    """What a step leaves of `group`, in which it found `given`.

    Args:
        kept: the entries that the steps before have changed.
        scheduled: those that a schedule sets.
        refuse: is told of an entry that changes and is no number of the step.
        refuse_tensor: is told of one that follows from what tensors hold.
    """
    left = Left({}, {}, {})
    for key in {*group, *given} - {"params"}:
        before, after = given.get(key), group.get(key)
        number = None if key in scheduled else _number(trace, after)
        is_same = key in group and key in given and same_value(after, before)
        if number is None:
            if not is_same:
                refuse(key)
            continue
        if _follows_from_tensors(number):
            refuse_tensor(key)
        left.numbers[state_of_entry(key)] = number
        if key in given and key not in kept:
            held = _number(trace, before)
            if held is None and before is not None:
                refuse(key)
            elif held is not None:
                left.begins[state_of_entry(key)] = held
        if key in kept or not is_same:
            left.kept[key] = KeptEntry(after.dtype if isinstance(after, torch.Tensor) else None)
            if group.writes.get(key, 0) > 1:
                refuse(key)  # how often may depend on which parameters have gradients
    return left


def _number(trace: Trace, value: Any) -> Optional[Expr]:
    if isinstance(value, torch.Tensor):
        return trace.value_of(value) if value.numel() == 1 else None
    is_number = isinstance(value, (int, float, Number)) and not isinstance(value, bool)
    return trace.number(value) if is_number else None


def _follows_from_tensors(value: Expr) -> bool:
    return not value.is_number or any(x.op == "item" for x in reached([value]))

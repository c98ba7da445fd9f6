"""What a step keeps in Python for the next one and computes with: numbers, as a count of its calls or a
mean of its losses, and tensors. They become buffers; with numbers the step computes as Python does.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, Iterable, Mapping, Optional

import torch

from ...errors import E, ExportError
from ...step.places import at_line
from ..values.python_floats import ReadNumber, is_number, read_value
from .reached import MISSING, Place
from .replaced_buffers import take_over


@dataclasses.dataclass(frozen=True)
class Kept(abc.ABC):
    """Something that a step keeps, and the buffer that it is.

    Attributes:
        place: where Python has it.
        tensor: the buffer, with its first value.
    """

    place: Place
    tensor: torch.Tensor

    @abc.abstractmethod
    def give(self, buffer: torch.Tensor) -> None:
        """Puts what `buffer` is in the place."""

    @abc.abstractmethod
    def take_over(self, buffer: torch.Tensor) -> None:
        """Gives `buffer` what a step has left in the place."""


class KeptTensor(Kept):
    """A tensor that is no buffer of a module."""

    def give(self, buffer: torch.Tensor) -> None:
        self.place.put(buffer.clone())

    def take_over(self, buffer: torch.Tensor) -> None:
        take_over(buffer, self.place.read(), self.place.name)


class KeptNumber(Kept):
    """A number, whose buffer is of float64 or int64."""

    def give(self, buffer: torch.Tensor) -> None:
        self.place.put(ReadNumber(buffer.clone()))

    def take_over(self, buffer: torch.Tensor) -> None:
        left = self.place.read()
        value = read_value(left)
        fits = isinstance(value, torch.Tensor) and value.numel() == 1 or is_number(value)
        if not fits or _has_fraction(value) and not _has_fraction(buffer):
            raise ExportError(
                E.PYTHON_STATE,
                f"the step leaves {type(left).__name__} in {self.place.name}, which was a number of "
                "another kind; keep it a number of that kind, or make it a buffer",
            )
        if isinstance(value, torch.Tensor):
            buffer.copy_(value.detach().reshape(()))
        else:
            buffer.fill_(value)


def _has_fraction(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dtype.is_floating_point
    return isinstance(value, float)


class StateKept(Exception):
    """A capture found numbers and tensors that the step keeps in Python and computes with. The step is to
    be captured with these as buffers.

    Attributes:
        kept: these, by the buffer's name.

    Raises:
        ExportError: a number is not there before the first step.
    """

    def __init__(self, found: Iterable[tuple[Place, Any, Any]]) -> None:
        self.kept: dict[str, Kept] = {}
        for place, before, now in found:
            name = f"fsdp.kept.{place.name}"
            while name in self.kept:
                name += "_"
            self.kept[name] = _kept(place, before, now)
        super().__init__(
            f"the step changes {names_of(self.kept)}, with which it computes: a buffer of each rank's "
            "own, which the Python object does not show"
        )


def _kept(place: Place, before: Any, now: Any) -> Kept:
    if before is MISSING:
        raise ExportError(
            E.PYTHON_STATE,
            f"the step computes with {place.name}, a number of Python's that its first run "
            "makes; give it a value before, as in __init__",
        )
    if isinstance(before, torch.Tensor):
        return KeptTensor(place, before.detach().clone())
    whole = isinstance(before, int) and not getattr(now, "has_fraction", False)
    whole = whole and not isinstance(now, float)
    return KeptNumber(place, torch.tensor(before, dtype=torch.int64 if whole else torch.float64))


def kept_refusal(line: str, kept: Mapping[str, Kept]) -> Optional[ExportError]:
    """The error of a step that uses a number which it keeps as no tensor can be; None: it keeps none."""
    numbers = {name: one for name, one in kept.items() if isinstance(one, KeptNumber)}
    if not numbers:
        return None
    return ExportError(
        E.PYTHON_STATE,
        at_line(
            line,
            f"the step changes {names_of(numbers)}, a number of Python's, and needs it as one (alpha=, the "
            "length of a loop, a text, a place in a list; a tensor may have it as a place); leave that "
            "out, make it a buffer changed in place, or take such steps in a loop of your own "
            "(docs/own-loop.md)",
        ),
    )


def names_of(kept: Mapping[str, Kept]) -> str:
    return ", ".join(one.place.name for one in kept.values())

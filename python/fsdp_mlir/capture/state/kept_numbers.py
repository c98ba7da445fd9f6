"""Numbers that a step keeps in Python for the next one, as a count of its calls or a mean of its
losses: they become buffers, with which the step computes as Python does with numbers."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterable, Mapping

import torch

from ...errors import E, ExportError
from ...step.places import at_line
from ..values.python_floats import ReadNumber, is_number, read_value
from .reached import MISSING, Place


@dataclasses.dataclass(frozen=True)
class KeptNumber:
    """A number, and the buffer that it is.

    Attributes:
        place: where Python has it.
        tensor: the buffer, of float64 or int64, with the number's first value.
    """

    place: Place
    tensor: torch.Tensor

    def give(self, buffer: torch.Tensor) -> None:
        """Puts a number that is the value of `buffer` in the place."""
        self.place.put(ReadNumber(buffer.clone()))

    def take_over(self, buffer: torch.Tensor) -> None:
        """Gives `buffer` the number that a step has left in the place."""
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


class NumbersKept(Exception):
    """A capture found numbers that the step keeps in Python and computes with. The step is to be
    captured with these as buffers.

    Attributes:
        kept: theirs, by the buffer's name.

    Raises:
        ExportError: one of them is not there before the first step.
    """

    def __init__(self, numbers: Iterable[tuple[Place, Any, Any]]) -> None:
        self.kept: dict[str, KeptNumber] = {}
        for place, before, now in numbers:
            if before is MISSING:
                raise ExportError(
                    E.PYTHON_STATE,
                    f"the step computes with {place.name}, a number of Python's that its first run "
                    "makes; give it a value before, as in __init__",
                )
            whole = isinstance(before, int) and not getattr(now, "has_fraction", False)
            whole = whole and not isinstance(now, float)
            tensor = torch.tensor(before, dtype=torch.int64 if whole else torch.float64)
            name = f"fsdp.number.{place.name}"
            while name in self.kept:
                name += "_"
            self.kept[name] = KeptNumber(place, tensor)
        super().__init__(
            f"the step changes {names_of(self.kept)}, with which it computes: a buffer of each rank's "
            "own, which the Python object does not show"
        )


def kept_refusal(line: str, kept: Mapping[str, KeptNumber]) -> ExportError:
    """The error of a step that uses what it keeps as no tensor can be."""
    return ExportError(
        E.PYTHON_STATE,
        at_line(
            line,
            f"the step changes {names_of(kept)}, a number of Python's, and needs it as one (alpha=, the "
            "length of a loop, a text, a place in a list; a tensor may have it as a place); leave that out, make it a buffer changed in place, or take "
            "such steps in a loop of your own (docs/own-loop.md)",
        ),
    )


def names_of(kept: Mapping[str, KeptNumber]) -> str:
    return ", ".join(number.place.name for number in kept.values())

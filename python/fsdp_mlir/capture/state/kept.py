"""What a step keeps in Python for the next one and computes with: numbers, as a count of its calls or a
mean of its losses, and tensors. They become buffers; with numbers the step computes as Python does.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import torch

from ...errors import E, ExportError
from ..values.python_floats import ReadNumber, is_number, read_value
from .places import Place
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

    @property
    def is_number(self) -> bool:
        """Whether the step finds a number there."""
        return False

    @property
    def is_tensor(self) -> bool:
        """Whether it finds a tensor there."""
        return False

    @abc.abstractmethod
    def give(self, buffer: torch.Tensor) -> None:
        """Puts what `buffer` is in the place."""

    @abc.abstractmethod
    def take_over(self, buffer: torch.Tensor) -> None:
        """Gives `buffer` what a step has left in the place."""


class KeptTensor(Kept):
    """A tensor that is no buffer of a module."""

    @property
    def is_tensor(self) -> bool:
        return True

    def is_like(self, value: object) -> bool:
        """Whether a value is of this kind."""
        return isinstance(value, torch.Tensor)

    def give(self, buffer: torch.Tensor) -> None:
        self.place.put(buffer.clone())

    def take_over(self, buffer: torch.Tensor) -> None:
        take_over(buffer, self.place.read(), self.place.name)


class KeptNumber(Kept):
    """A number, whose buffer is of float64 or int64."""

    @property
    def is_number(self) -> bool:
        return True

    def is_like(self, value: object) -> bool:
        """Whether a value is of this kind."""
        return is_number(value)

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

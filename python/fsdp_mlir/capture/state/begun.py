"""What a step makes where there was nothing, as in `if self.mean is None:`, and keeps for the next one.
A further buffer says whether it was made. By that each step decides what it finds."""

from __future__ import annotations

import dataclasses
from typing import Any, Union

import torch

from ...errors import E, ExportError
from ..values.decisions import ask
from .kept import Kept, KeptNumber, KeptTensor
from .places import MISSING

# Stands in a place between `Begun` and `Made`.
_MADE = object()


@dataclasses.dataclass(frozen=True)
class Made(Kept):
    """What a step makes.

    Attributes:
        kept: what it is from then on.
        nothing: what stands in the whole place until then, as None.
    """

    kept: Union[KeptNumber, KeptTensor]
    nothing: Any

    @property
    def is_number(self) -> bool:
        return self.kept.is_number

    @property
    def is_tensor(self) -> bool:
        return self.kept.is_tensor

    @property
    def is_made(self) -> bool:
        """Whether it is in its place now.

        Raises:
            ExportError: something is there that is neither this nor what stood there before.
        """
        left = self.place.read()
        if left is self.nothing:
            return False
        if not self.kept.is_like(left):
            raise ExportError(
                E.PYTHON_STATE,
                f"a step makes {self.place.name}, and leaves {type(left).__name__} there later; keep it what "
                "it was made, or put back what was there before",
            )
        return True

    def give(self, buffer: torch.Tensor) -> None:
        if self.place.read() is _MADE:
            self.kept.give(buffer)

    def take_over(self, buffer: torch.Tensor) -> None:
        if self.is_made:
            self.kept.take_over(buffer)


@dataclasses.dataclass(frozen=True)
class Begun(Kept):
    """The flag of what one step makes at once: 1 where it was made, else 0. It comes before these.

    Attributes:
        made: what that step makes; `place` is the first one's.
    """

    made: tuple[Made, ...]

    @property
    def names(self) -> str:
        return ", ".join(one.place.name for one in self.made)

    def give(self, buffer: torch.Tensor) -> None:
        """Puts what was there before into the places, unless the answer is that something was made."""
        is_made = ask(buffer.ne(0), self.names)
        for one in self.made:
            if is_made:
                one.place.put(_MADE)
            else:
                one.place.whole.put(one.nothing, one.nothing is not MISSING)

    def take_over(self, buffer: torch.Tensor) -> None:
        lacking = [one.place.name for one in self.made if not one.is_made]
        if lacking and len(lacking) < len(self.made):
            raise ExportError(
                E.PYTHON_STATE,
                f"the step makes {self.names} at once, and where values decide otherwise leaves nothing in "
                f"{', '.join(lacking)}; give them values in __init__, or make them buffers",
            )
        buffer.fill_(not lacking)

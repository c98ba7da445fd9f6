"""What a step makes that finds something else in its place, as in `if self.mean is None:`, and keeps for
the next one. A further buffer says whether a step has made it, and each one decides by that what it finds.
"""

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
    """Whether what one step makes at once has been made: 1, or 0. It comes before what it is about.

    Attributes:
        made: what it is about; `place` is that of the first.
    """

    made: tuple[Made, ...]

    def give(self, buffer: torch.Tensor) -> None:
        """Puts what was there before into the places, unless the answer is that something was made."""
        is_made = ask(buffer.ne(0), ", ".join(one.place.name for one in self.made))
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
                f"the step makes {', '.join(one.place.name for one in self.made)} at once, and where "
                f"values decide otherwise leaves nothing in {', '.join(lacking)}; give them values in "
                "__init__, or make them buffers",
            )
        buffer.fill_(not lacking)

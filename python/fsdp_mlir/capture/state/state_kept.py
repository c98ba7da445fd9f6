"""What a capture has found that the step keeps in Python: it is to be captured with that as buffers."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional, Union

import torch

from ...errors import E, ExportError
from ...step.places import at_line
from .begun import Begun, Made
from .kept import Kept, KeptNumber, KeptTensor
from .places import Found


class StateKept(Exception):
    """A capture found numbers and tensors that the step keeps in Python and computes with. The step is to
    be captured with these as buffers.

    Attributes:
        kept: these, by the buffer's name; in front of those that the step makes, whether it has.

    Raises:
        ExportError: it makes a tensor whose shape depends on values.
    """

    def __init__(self, found: Iterable[Found]) -> None:
        self.kept: dict[str, Kept] = {}
        found = list(found)
        made = [_made(one) for one in found if one.is_made]
        if made:
            self._add("fsdp.begun", Begun(made[0].place, torch.tensor(0), tuple(made)))
        for kept in (*made, *(_kept(one) for one in found if not one.is_made)):
            self._add("fsdp.python", kept)
        super().__init__(
            f"the step changes {names_of(self.kept)}, with which it computes: a buffer of each rank's "
            "own, which the Python object does not show"
        )

    def _add(self, what: str, kept: Kept) -> None:
        name = f"{what}.{kept.place.name}"
        while name in self.kept:
            name += "_"
        self.kept[name] = kept

    def check_new(self, known: Mapping[str, Kept]) -> None:
        """Raises ExportError where the capture had all of these as buffers and still asks for them."""
        if self.kept.keys() <= known.keys():
            raise ExportError(
                E.PYTHON_STATE,
                f"the step is another one each time that it runs, by what it keeps in "
                f"{names_of(self.kept)}; make that buffers that are changed in place",
            )


def _made(found: Found) -> Made:
    place, before, now = found
    if isinstance(now, torch.Tensor):
        if not all(isinstance(size, int) for size in now.shape):
            raise ExportError(
                E.PYTHON_STATE,
                f"the step makes a tensor in {place.name} whose shape depends on values; make it one of a "
                "shape that is known. Where later steps leave it as it is, as a cache of what every batch "
                "has, run the model on a batch before the TrainingStep",
            )
        kept: Union[KeptNumber, KeptTensor] = KeptTensor(
            place, torch.zeros(now.shape, dtype=now.dtype)
        )
    else:
        kept = KeptNumber(place, _first_number(0, now))
    return Made(place, kept.tensor, kept, before)


def _kept(found: Found) -> Kept:
    place, before, now = found
    if isinstance(before, torch.Tensor):
        return KeptTensor(place, before.detach().clone())
    return KeptNumber(place, _first_number(before, now))


def _first_number(before: Any, now: Any) -> torch.Tensor:
    whole = isinstance(before, int) and not getattr(now, "has_fraction", False)
    whole = whole and not isinstance(now, float)
    return torch.tensor(before, dtype=torch.int64 if whole else torch.float64)


def kept_refusal(line: str, kept: Mapping[str, Kept]) -> Optional[ExportError]:
    """The error of a step that uses a number which it keeps as no tensor can be; None: it keeps none."""
    numbers = {name: one for name, one in kept.items() if one.is_number}
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
    return ", ".join(dict.fromkeys(one.place.name for one in kept.values()))

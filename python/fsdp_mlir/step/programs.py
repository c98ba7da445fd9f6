"""The programs that a training step is captured as: one for each use and shape of its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional, Sequence

import torch

from ..errors import E, ExportError
from .turns import Turn

Batch = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class StepProgram:
    """A program before it is captured.

    Attributes:
        name: its symbol, and its method in the archive.
        inputs: an example of its batches.
        turns: whose losses it computes; it trains by its one turn's, or, with `trains` False,
            evaluates all of them.
        trains: it has gradients and updates; else the model is in eval().
        variant_of: the program that does the same for batches of another shape, or None.
        next: the program of the next turn on the same batch, or None.
    """

    name: str
    inputs: Batch
    turns: Sequence[Turn]
    trains: bool
    variant_of: Optional[str] = None
    next: Optional[str] = None

    @property
    def turn(self) -> Optional[str]:
        """The name of its turn; None where it has none."""
        return (self.turns[0].name or None) if self.trains else None


def programs_of(
    batches: Sequence[Batch], turns: Sequence[Turn], evaluates: bool
) -> list[StepProgram]:
    """The programs of a step whose batches have the shapes of `batches`, the first ones first:
    one for each turn of training, and one that evaluates all turns."""
    programs = []
    for number, batch in enumerate(batches, 1):
        names = [
            _name("step", number, turn.name if place else "") for place, turn in enumerate(turns)
        ]
        firsts = [_name("step", 1, turn.name if place else "") for place, turn in enumerate(turns)]
        for turn, name, first, following in zip(turns, names, firsts, [*names[1:], None]):
            of = first if number > 1 else None
            programs.append(StepProgram(name, batch, [turn], True, of, following))
    for number, batch in enumerate(batches if evaluates else (), 1):
        of = "eval" if number > 1 else None
        programs.append(StepProgram(_name("eval", number, ""), batch, turns, False, of))
    return programs


def _name(use: str, batch: int, turn: str) -> str:
    """ "step", "step_2" of the second shape, "step_generator" and "step_2_generator" of a turn
    behind the first. A turn's name begins with no digit."""
    parts = [use, str(batch) if batch > 1 else "", turn]
    return "_".join(filter(None, parts))


def shapes_text(batch: Batch) -> str:
    """ "x [4, 6] and y [4]", for messages."""
    parts = [f"{name} {list(tensor.shape)}" for name, tensor in batch.items()]
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def check_batches(batches: Sequence[Batch], accumulate: int) -> None:
    """Raises ExportError where examples of batches differ in more than their shapes, or not in
    these."""
    first = batches[0]
    if not first:
        raise ExportError(
            E.STEP_INPUTS, "inputs is empty; name at least one tensor that loss takes"
        )
    if len(batches) > 1 and accumulate > 1:
        raise ExportError(
            E.STEP_INPUTS,
            f"inputs has {len(batches)} shapes, and a step takes {accumulate} micro-batches; the "
            "micro-batches of a step have one shape: give one, or accumulate=1",
        )
    seen: dict[str, int] = {}
    for number, batch in enumerate(batches):
        if list(batch) != list(first):
            raise ExportError(
                E.STEP_INPUTS,
                f"inputs[{number}] names {', '.join(batch)}, and inputs[0] {', '.join(first)}; "
                "give the same names in the same order",
            )
        for name, tensor in batch.items():
            if tensor.dtype != first[name].dtype:
                raise ExportError(
                    E.STEP_INPUTS,
                    f"inputs[{number}][{name!r}] is {tensor.dtype}, and inputs[0][{name!r}] "
                    f"{first[name].dtype}; batches differ in their shapes alone",
                )
        text = shapes_text(batch)
        if text in seen:
            raise ExportError(
                E.STEP_INPUTS,
                f"inputs[{number}] has the shapes of inputs[{seen[text]}], {text}; give one batch "
                "of each shape",
            )
        seen[text] = number


def check_constants(batches: Sequence[Batch], from_data: Sequence[str]) -> None:
    """Raises ExportError where an input that every step repeats has several shapes."""
    for name, tensor in batches[0].items():
        others = [batch[name].shape for batch in batches if batch[name].shape != tensor.shape]
        if name not in from_data and others:
            raise ExportError(
                E.STEP_INPUTS,
                f"inputs have {name} of shape {list(tensor.shape)} and {list(others[0])}, and data "
                "does not give it: every step repeats it, so it has one shape",
            )

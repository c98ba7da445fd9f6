"""Contestants take turns: A B C A B C ..., so that drift of the machine hits all alike."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import time
from typing import Callable, Sequence, Union

from bench.contestants import CONTESTANTS, Contestant
from bench.files import Files
from bench.models import IDLE, Model
from bench.plan_runs import PlanRuns
from bench.torch_runs import TorchRuns
from bench.turn import Failed, Turn

CHECKED_STEPS = 4
# Fused and for-loop optimizers round differently, and so do compiled kernels.
TOLERANCE = 2e-4


@dataclasses.dataclass
class Measured:
    """All turns of one contestant on one model; `failure` says why there are none."""

    contestant: Contestant
    turns: list[Turn] = dataclasses.field(default_factory=list)
    idle_bytes: int = 0
    failure: str = ""


def _start(contestant: Contestant, model: Model, files: Files) -> Union[TorchRuns, PlanRuns]:
    if contestant.loop:
        return TorchRuns(contestant, model, files)
    return PlanRuns(contestant, files)


def measure_idle(contestants: Sequence[Contestant], folder: pathlib.Path, fused: bool) -> dict:
    """Peak of a process of each kind that trains two numbers, in bytes; 0 where it fails."""
    files = Files(IDLE, folder / "idle", fused)
    peaks = {}
    for contestant in contestants:
        try:
            runs = _start(contestant, IDLE, files)
            peaks[contestant.name] = runs.take_turn(IDLE.warmup, IDLE.steps).peak_bytes
            runs.close()
        except Failed:
            peaks[contestant.name] = 0
    return peaks


def measure(
    model: Model,
    names: Sequence[str],
    rounds: int,
    steps: int,
    folder: pathlib.Path,
    fused: bool,
    say: Callable[[str], None],
) -> list[Measured]:
    """Starts everyone, holds their losses against each other, and lets them take turns.

    Raises:
        Failed: two contestants compute different losses.
    """
    say(f"{model.name}: exporting")
    files = Files(model, folder / model.name, fused)
    measured = [Measured(CONTESTANTS[name]) for name in names]
    say(f"{model.name}: idle processes")
    idle = measure_idle([m.contestant for m in measured], folder, fused)
    running: list[tuple[Measured, Union[TorchRuns, PlanRuns]]] = []
    first: list[tuple[Contestant, list[float]]] = []
    try:
        for entry in measured:
            entry.idle_bytes = idle[entry.contestant.name]
            say(f"{model.name}: starting {entry.contestant.name}")
            try:
                runs = _start(entry.contestant, model, files)
                first.append((entry.contestant, runs.take_turn(0, CHECKED_STEPS).losses))
                running.append((entry, runs))
            except Failed as error:
                entry.failure = str(error)
                say(f"{model.name}: {entry.contestant.name} takes no part: {error}")
        check_losses(first)
        for number in range(rounds):
            begin = time.monotonic()
            for entry, runs in running:
                entry.turns.append(runs.take_turn(model.warmup, steps))
            took = time.monotonic() - begin
            say(f"{model.name}: round {number + 1} of {rounds} ({took:.0f} s)")
    finally:
        for _, runs in running:
            runs.close()
    return measured


def check_losses(first: Sequence[tuple[Contestant, list[float]]]) -> None:
    """All train the same model on the same data: the first step's loss is one number; the later
    ones too where both ranks train one model."""
    coupled = [pair for pair in first if pair[0].coupled] or first[:1]
    if not coupled:
        return
    reference, expected = coupled[0]
    for contestant, losses in first:
        compared = len(expected) if contestant.coupled else 1
        # Independent processes of one rank feed both cores rank 0's batches.
        if contestant.ranks == 1:
            continue
        for step, (loss, wanted) in enumerate(zip(losses[:compared], expected), 1):
            if not math.isclose(loss, wanted, rel_tol=TOLERANCE):
                raise Failed(
                    f"{contestant.name} has the loss {loss!r} in step {step}, {reference.name} "
                    f"{wanted!r}: they do not train the same model, so their times say nothing"
                )

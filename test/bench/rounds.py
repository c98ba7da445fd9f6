"""Contestants take turns: A B C A B C ..., so that drift of the machine hits all alike."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import time
from typing import Callable, Optional, Sequence, Union

from bench.contestants import CONTESTANTS, WIRE_FREE, WIRED, Contestant
from bench.files import Files
from bench.models import IDLE, Model
from bench.plan_runs import PlanRuns
from bench.torch_runs import TorchRuns
from bench.turn import Failed, Turn
from bench.wire import Wire, equal_to_compute

CHECKED_STEPS = 3
# Fused and for-loop optimizers round differently, and so do compiled kernels.
TOLERANCE = 2e-4
# A loss of 16 bits is the nearest of so many: one unit in the last place of bfloat16.
COARSE_TOLERANCE = 2.0**-7

Runs = Union[TorchRuns, PlanRuns]


@dataclasses.dataclass(frozen=True)
class Settings:
    """`steps` and `rounds` are the model's own where they are None; `wire` adds the throttled."""

    names: Sequence[str]
    folder: pathlib.Path
    fused: bool = True
    wire: bool = True
    steps: Optional[int] = None
    rounds: Optional[int] = None


@dataclasses.dataclass
class Measured:
    """All turns of one contestant on one model; `failure` says why there are none."""

    contestant: Contestant
    turns: list[Turn] = dataclasses.field(default_factory=list)
    idle_bytes: int = 0
    failure: str = ""


def measure_idle(settings: Settings) -> dict[str, int]:
    """Peak of a process that trains two numbers, in bytes, by contestant; 0 where it fails."""
    files = Files(IDLE, settings.folder / "idle", settings.fused)
    kinds: dict[str, int] = {}
    peaks = {}
    for name in settings.names:
        contestant = CONTESTANTS[name]
        kind = contestant.loop or f"plan of {contestant.ranks}"
        # One plan of two numbers is like another, if it exists.
        if not kinds.get(kind):
            try:
                runs = _start(contestant, IDLE, files)
                kinds[kind] = runs.take_turn(IDLE.warmup, IDLE.steps).peak_bytes
                runs.close()
            except Failed:
                kinds[kind] = 0
        peaks[name] = kinds[kind]
    return peaks


def _start(contestant: Contestant, model: Model, files: Files) -> Runs:
    if contestant.loop:
        return TorchRuns(contestant, model, files)
    return PlanRuns(contestant, files)


class Rounds:
    """Starts everyone, holds their losses against each other, and lets them take turns."""

    def __init__(self, model: Model, settings: Settings, say: Callable[[str], None]):
        self.model = model
        self.settings = settings
        self.say = lambda text: say(f"{model.name}: {text}")
        self.steps = settings.steps or model.steps
        self.rounds = settings.rounds or model.rounds
        self.wires: list[Wire] = []  # of each round: as slow as its compute
        self.running: list[tuple[Measured, Runs]] = []
        self.first: list[tuple[Contestant, list[float]]] = []

    def measure(self, idle: dict[str, int]) -> list[Measured]:
        """Raises Failed where two contestants compute different losses."""
        self.say("exporting")
        files = Files(self.model, self.settings.folder / self.model.name, self.settings.fused)
        everyone = []
        try:
            for name in self.settings.names:
                if name in self.model.without:
                    continue
                everyone.append(Measured(CONTESTANTS[name], idle_bytes=idle[name]))
                self.enter(everyone[-1], lambda c: _start(c, self.model, files))
            if self.settings.wire:
                everyone += self._enter_wired(files)
            check_losses(self.first, COARSE_TOLERANCE if self.model.precision else TOLERANCE)
            self.take_turns()
        finally:
            for _, runs in self.running:
                runs.close()
        return everyone

    def take_turns(self) -> None:
        for number in range(self.rounds):
            begin = time.monotonic()
            for entry, runs in self.running:
                self._take_turn(entry, runs)
            took = time.monotonic() - begin
            self.say(f"round {number + 1} of {self.rounds} ({took:.0f} s)")

    def enter(self, entry: Measured, start: Callable[[Contestant], Runs]) -> bool:
        """Takes the first turn, which is not timed; False where `entry` takes no part."""
        contestant = entry.contestant
        self.say(f"starting {contestant.name}")
        try:
            runs = start(contestant)
            losses = runs.take_turn(0, CHECKED_STEPS).losses
        except Failed as error:
            entry.failure = str(error)
            self.say(f"{contestant.name} takes no part: {error}")
            return False
        self.first.append((contestant, losses))
        self.running.append((entry, runs))
        return True

    def _take_turn(self, entry: Measured, runs: Runs) -> None:
        if entry.contestant.throttled:
            runs.flags = self.wires[-1].flags()
        turn = runs.take_turn(self.model.warmup, self.steps)
        entry.turns.append(turn)
        if entry.contestant is WIRE_FREE:
            self.wires.append(equal_to_compute(turn))

    def _enter_wired(self, files: Files) -> list[Measured]:
        """The schedules for a wire as slow as this model's compute."""
        free = Measured(WIRE_FREE)
        if not self.enter(free, lambda c: PlanRuns(c, files)):
            return [free]
        _, runs = self.running[-1]
        wire = equal_to_compute(runs.take_turn(self.model.warmup, self.steps))
        self.say(
            f"a wire of {wire.bytes_per_s / 1e9:.3f} GB/s takes as long as compute, "
            f"{wire.compute_ms:.1f} ms a step"
        )
        cluster = wire.describe(files.folder / "wire.toml")
        entries = [Measured(contestant) for contestant in WIRED.values()]
        for entry in entries:
            self.enter(entry, lambda c: PlanRuns(c, files, wire.flags(), cluster))
        return [free, *entries]


def check_losses(
    first: Sequence[tuple[Contestant, list[float]]], tolerance: float = TOLERANCE
) -> None:
    """All train the same model on the same data: the first step's loss is one number; the later
    ones too where both ranks train one model."""
    coupled = [pair for pair in first if pair[0].coupled] or first[:1]
    if not coupled:
        return
    reference, expected = coupled[0]
    for contestant, losses in first:
        compared = len(expected) if contestant.coupled else 1
        # Independent processes of one rank feed both cores rank 0's batches.
        if contestant.copies > 1:
            continue
        for step, (loss, wanted) in enumerate(zip(losses[:compared], expected), 1):
            if not math.isclose(loss, wanted, rel_tol=tolerance):
                raise Failed(
                    f"{contestant.name} has the loss {loss!r} in step {step}, {reference.name} "
                    f"{wanted!r}: they do not train the same model, so their times say nothing"
                )

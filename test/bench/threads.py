"""Two ranks of one thread beside one rank of two threads, for the same global batch."""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
from typing import Any, Callable

from bench.contestants import Contestant
from bench.files import Files
from bench.models import MODELS
from bench.plan_runs import PlanRuns

SIZES = ("tiny", "small")
ROUNDS = 5
BATCH = 8
RANKS = Contestant("two-ranks", "2 ranks × 1 thread", pipeline="mesh=2 shard-layout=flat")
THREADS = Contestant(
    "two-threads", "1 rank × 2 threads", pipeline="mesh=1 shard-layout=flat", ranks=1, threads=2
)


def measure(
    folder: pathlib.Path, say: Callable[[str], None], rounds: int = ROUNDS
) -> dict[str, dict[str, Any]]:
    """By model: medians of steps in milliseconds, in turns, and the bytes that the processes of a
    run have resident at their peak, all ranks' together.

    Raises:
        Failed: a run failed. ChainError: the step cannot be compiled.
    """
    return {size: _measure(size, folder / size, say, rounds) for size in SIZES}


def text(figures: dict[str, dict[str, Any]]) -> str:
    lines = ["\nthe same batch of 8 on two cores:"]
    for size, found in figures.items():
        shown = (
            f"{who.label} {found[who.name]['step_ms']:.2f} ms, "
            f"{found[who.name]['peak_bytes'] / 2**20:.0f} MiB"
            for who in (RANKS, THREADS)
        )
        ratio = found[THREADS.name]["step_ms"] / found[RANKS.name]["step_ms"]
        lines.append(f"  {size}: {'; '.join(shown)}; {ratio:.2f}")
    return "\n".join(lines)


def _measure(
    size: str, folder: pathlib.Path, say: Callable[[str], None], rounds: int
) -> dict[str, Any]:
    model = MODELS[size]
    say(f"threads: {rounds} rounds of {size}")
    runs = {}
    for who in (RANKS, THREADS):
        batch = ("--batch", str(BATCH // who.ranks))
        sized = dataclasses.replace(model, flags=(*model.flags, *batch))
        runs[who] = PlanRuns(who, Files(sized, folder / who.name, fused=True))
    steps: dict[Contestant, list[float]] = {who: [] for who in runs}
    peaks: dict[Contestant, int] = {}
    for _ in range(rounds):
        for who, run in runs.items():
            turn = run.take_turn(model.warmup, model.steps)
            steps[who].append(1e3 * statistics.median(turn.seconds))
            peaks[who] = turn.peak_bytes * who.ranks
    return {
        who.name: {"step_ms": statistics.median(steps[who]), "peak_bytes": peaks[who]}
        for who in runs
    }

"""What checkpoints cost a run of two ranks, from its start to its end, and how long a run that
resumes takes to its first step."""

from __future__ import annotations

import pathlib
import shutil
import statistics
import time
from typing import Any, Callable

from bench.contestants import CONTESTANTS
from bench.files import Files
from bench.models import Model
from bench.plan_runs import PlanRuns

WARMUP, STEPS, EVERY, ROUNDS = 1, 30, 10, 3
# Of a run without checkpoints; and seconds.
GOAL, RESTART_GOAL = 1.05, 3.0
PLAIN = CONTESTANTS["flat-overlap"]


def measure(
    folder: pathlib.Path,
    say: Callable[[str], None],
    model: Model,
    steps: int = STEPS,
    rounds: int = ROUNDS,
) -> dict[str, Any]:
    """Medians over rounds, in turns: seconds of `steps` steps with a checkpoint every `EVERY` ones,
    behind the steps, and without; and seconds from the command to the end of the first step of a
    run that resumes. `ratios` has one for each round.

    Raises:
        Failed: a run failed. ChainError: the step cannot be compiled.
    """
    say(f"checkpoints of {model.name}: {rounds} rounds of {steps} steps")
    files = Files(model, folder, fused=True)
    written = folder / "written"
    where = ("--checkpoint-dir", str(written), "--checkpoint-interval", str(EVERY))
    plain, saving = PlanRuns(PLAIN, files), PlanRuns(PLAIN, files, where)
    resuming = PlanRuns(PLAIN, files, (*where, "--resume", "auto"))
    saved, unsaved, restarts = [], [], []
    for _ in range(rounds):
        shutil.rmtree(written, ignore_errors=True)
        saved.append(sum(saving.take_turn(WARMUP, steps).seconds))
        restarts.append(_to_first_step(resuming, WARMUP + steps + 1))
        unsaved.append(sum(plain.take_turn(WARMUP, steps).seconds))
    shutil.rmtree(written)
    ratios = [with_them / without for with_them, without in zip(saved, unsaved)]
    return {
        "steps": steps,
        "saving_s": statistics.median(saved),
        "plain_s": statistics.median(unsaved),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "restart_s": statistics.median(restarts),
    }


def _to_first_step(runs: PlanRuns, steps: int) -> float:
    begin = time.perf_counter()
    process = runs.start(0, steps)
    metrics = runs.path(0, "metrics.jsonl")
    # The lines of the steps that are done were removed with the file.
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.001)
    seconds = time.perf_counter() - begin
    runs.finish(0, process)
    return seconds


def text(name: str, figures: dict[str, Any]) -> str:
    low, high = min(figures["ratios"]), max(figures["ratios"])
    verdict = "met" if figures["ratio"] <= GOAL else "NOT met"
    restart = "met" if figures["restart_s"] <= RESTART_GOAL else "NOT met"
    return (
        f"\ncheckpoints of {name}, every {EVERY} steps: {figures['steps']} steps in "
        f"{figures['saving_s']:.3f} s, without them {figures['plain_s']:.3f} s; "
        f"{figures['ratio']:.3f} of it ({low:.3f} to {high:.3f} by round; ≤ {GOAL}, {verdict}); a "
        f"run that resumes is at the end of its first step in {figures['restart_s']:.2f} s "
        f"(≤ {RESTART_GOAL:g}, {restart})"
    )

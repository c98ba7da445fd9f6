"""How long a rank waits for a loader with augmentation and two workers, and how fast that is."""

from __future__ import annotations

import json
import pathlib
import shlex
import statistics
import sys
import time
from typing import Any, Callable

from bench import images
from bench.turn import Failed, environment
from support import chain

STEPS, WARMUP = 150, 10
GOAL = 0.02


def measure(folder: pathlib.Path, say: Callable[[str], None], steps: int = STEPS) -> dict[str, Any]:
    """Milliseconds: of a batch of the loader alone, of a step, and of its waiting for data
    (`wait_ms`, a mean: waits are rare and long); `share` is the last by the step's mean.

    Raises:
        Failed: the run failed. ChainError: the step cannot be compiled.
    """
    say(f"loader: alone, and {steps} steps of ResNet-18")
    step_file = pathlib.Path(images.__file__)
    compiled = chain.compile_step(step_file, folder, pipeline="mesh=1")
    metrics = folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    feeder = [sys.executable, "-m", "fsdp_mlir.driver.feed_step", str(step_file)]
    words = chain.run_arguments(compiled, WARMUP + steps)
    words += ["--data-command", f"exec {shlex.join(feeder)}"]
    words += ["--metrics", str(metrics), "--progress", "none"]
    alone = batch_ms(steps)
    try:
        chain.command(words, env=environment(OMP_NUM_THREADS="1"))
    except chain.ChainError as error:
        raise Failed(f"fsdp-run failed: {error}") from error
    rows = [row for row in map(json.loads, metrics.read_text().splitlines()) if "step_ms" in row]
    mean = {n: statistics.mean(r[n] for r in rows[WARMUP:]) for n in ("step_ms", "data_wait_ms")}
    return {
        "loader_ms": alone,
        "step_ms": mean["step_ms"],
        "wait_ms": mean["data_wait_ms"],
        "share": mean["data_wait_ms"] / mean["step_ms"],
    }


def batch_ms(batches: int) -> float:
    """Of the loader with nobody else at work."""
    taken = iter(images.training_data([]))
    for _ in range(WARMUP):
        next(taken)
    begin = time.perf_counter()
    for _ in range(batches):
        next(taken)
    return 1e3 * (time.perf_counter() - begin) / batches


def text(figures: dict[str, Any]) -> str:
    if figures["loader_ms"] >= figures["step_ms"]:
        verdict = "no goal: the loader alone is slower than a step"
    else:
        verdict = f"≤ {GOAL:.0%}, {'met' if figures['share'] <= GOAL else 'NOT met'}"
    return (
        f"\nloader of pictures, 2 workers: {figures['loader_ms']:.2f} ms a batch alone; a step of "
        f"{figures['step_ms']:.1f} ms waits {figures['wait_ms']:.3f} ms, {figures['share']:.2%} "
        f"of it ({verdict})"
    )

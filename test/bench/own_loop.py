"""What a loop of one's own costs above fsdp-run: the model `tiny` on one rank.

As a program, `python -m bench.own_loop PLAN WEIGHTS DATA STEPS`, it is the loop, and prints the
seconds of each step as JSON.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import sys
import time
from typing import Any, Callable

from bench.contestants import Contestant
from bench.files import Files
from bench.models import MODELS
from bench.plan_runs import PlanRuns
from bench.turn import Failed, environment
from support import chain

STEPS, WARMUP, ROUNDS = 300, 20, 9
GOAL_US = 50.0
# One rank: of two runs side by side, the other one would be what is measured.
ALONE = Contestant("own-loop", "fsdp-run", pipeline="mesh=1 shard-layout=flat", ranks=1)


def measure(
    folder: pathlib.Path, say: Callable[[str], None], steps: int = STEPS, rounds: int = ROUNDS
) -> dict[str, Any]:
    """Medians of steps in turns, in milliseconds, and the median of the rounds' differences in
    microseconds. The loop's steps include that it cuts its batches from tensors in memory, as
    fsdp-run's do that it reads them and writes its metrics.

    Raises:
        Failed: a run failed. ChainError: the step cannot be compiled.
    """
    say(f"own loop: {rounds} rounds of {steps} steps")
    runs = PlanRuns(ALONE, Files(MODELS["tiny"], folder, fused=True))
    ours, theirs = [], []
    for _ in range(rounds):
        turn = runs.take_turn(WARMUP, steps)
        ours.append(1e3 * statistics.median(turn.seconds))
        theirs.append(1e3 * statistics.median(_loop(runs.compiled, steps)))
    return {
        "fsdp_run_ms": statistics.median(ours),
        "own_loop_ms": statistics.median(theirs),
        "differences_us": [1e3 * (own - run) for own, run in zip(theirs, ours)],
        "difference_us": 1e3 * statistics.median(own - run for own, run in zip(theirs, ours)),
    }


def text(figures: dict[str, Any]) -> str:
    verdict = "met" if figures["difference_us"] <= GOAL_US else "NOT met"
    low, high = min(figures["differences_us"]), max(figures["differences_us"])
    return (
        f"\nown loop on tiny: {figures['own_loop_ms']:.3f} ms a step, fsdp-run "
        f"{figures['fsdp_run_ms']:.3f} ms; {figures['difference_us']:+.0f} µs "
        f"({low:+.0f} to {high:+.0f} by round; ≤ {GOAL_US:.0f}, {verdict})"
    )


def _loop(compiled: chain.Compiled, steps: int) -> list[float]:
    words = [compiled.plan, compiled.weights, compiled.data, WARMUP + steps]
    command = [sys.executable, "-m", "bench.own_loop", *map(str, words)]
    try:
        done = chain.command(command, env=environment(OMP_NUM_THREADS="1"))
    except chain.ChainError as error:
        raise Failed(f"the loop failed: {error}") from error
    return json.loads(done.stdout)[WARMUP:]


def main(plan: str, weights: str, data: str, steps: str) -> None:
    os.sched_setaffinity(0, {0, 1})  # as fsdp-run in the bench
    import torch
    from safetensors.torch import load_file

    import fsdp_mlir

    torch.set_num_threads(1)
    samples = load_file(data)
    with fsdp_mlir.load(plan, weights) as run:
        size = len(next(iter(samples.values())))
        batch, seconds, end = 4, [], time.perf_counter()
        for i in range(int(steps)):
            at = i * batch % (size - batch)
            run({name: tensor[at : at + batch] for name, tensor in samples.items()})
            begin, end = end, time.perf_counter()
            seconds.append(end - begin)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])

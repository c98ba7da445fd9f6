"""How much of the machine a step of `mid` uses: its operations per second beside the most that
any library reached on a core with matrices of 2048 × 2048."""

from __future__ import annotations

import pathlib
import statistics
import tomllib
from typing import Any, Callable

from bench.contestants import CONTESTANTS
from bench.cube import SIZE
from bench.files import Files
from bench.models import HERE, MODELS, Model
from bench.plan_runs import PlanRuns

WARMUP, STEPS, ROUNDS = 2, 4, 3
GOAL = 0.85
CUBE = Model("cube", HERE / "cube.py", (), 1, 1, 1)
RUNS = ("flat-overlap", "flat-overlap-fast")


def measure(folder: pathlib.Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Operations per second: of the cube by the fastest kernel, in the thread's own time, and of
    each rank of `mid`, products and attention, in the median of its steps. A causal attention
    counts whole.

    Raises:
        Failed: a run failed. ChainError: the step cannot be compiled.
    """
    say("share of the machine: the fastest products")
    best, kernel = _best(Files(CUBE, folder / "cube", fused=False).kernel_table())
    say(f"share of the machine: {ROUNDS} rounds of mid")
    files = Files(MODELS["mid"], folder / "mid", fused=True)
    runs = {name: PlanRuns(CONTESTANTS[name], files) for name in RUNS}
    rates: dict[str, list[float]] = {name: [] for name in RUNS}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            turn = run.take_turn(WARMUP, STEPS)
            operations = turn.details["summary"]["flops_per_step"]
            rates[name].append(operations / statistics.median(turn.seconds))
    return {
        "best": best,
        "best_kernel": kernel,
        "rates": {name: statistics.median(found) for name, found in rates.items()},
        "shares": {name: statistics.median(found) / best for name, found in rates.items()},
    }


def text(figures: dict[str, Any]) -> str:
    shares, rates = figures["shares"], figures["rates"]
    verdict = "met" if shares["flat-overlap-fast"] >= GOAL else "NOT met"
    return (
        f"\nshare of the machine: {figures['best'] / 1e9:.1f} GFLOP/s by {figures['best_kernel']} "
        f"on a cube of {SIZE}; a rank of mid {rates['flat-overlap-fast'] / 1e9:.1f} by the fastest "
        f"kernels, {shares['flat-overlap-fast']:.0%} of it (≥ {GOAL:.0%}, {verdict}), and "
        f"{rates['flat-overlap'] / 1e9:.1f} by exact ones, {shares['flat-overlap']:.0%}"
    )


def _best(table: pathlib.Path) -> tuple[float, str]:
    """Of all products in the table and all kernels of each."""
    products = tomllib.loads(table.read_text())["products"]
    seconds, kernel = min((s, k) for times in products.values() for k, s in times.items())
    return 2 * SIZE**3 / seconds, kernel

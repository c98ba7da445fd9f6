"""How long a step of each model of the zoo takes, in units of eager PyTorch's.

python test/numerics/zoo/speed.py                     all that train, writes speed.csv; some 40 minutes
python test/numerics/zoo/speed.py --only Mixer gmlp   of names with one of these, and prints them

One rank and one thread each; both take steps in turns, and the least time of each counts.
"""

from __future__ import annotations

import argparse
import csv
import gc
import os
import pathlib
import statistics
import sys
import tempfile
import time
import warnings
from typing import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parents[2] / "python")]


import fsdp_mlir  # noqa: E402
from check import STEP_FILE  # noqa: E402
from fsdp_mlir.capture.operators.library_defaults import every_layer  # noqa: E402
from support import outcomes, reference  # noqa: E402
from support.outcomes import PASSED, REFUSED, Outcome, Stage, failure  # noqa: E402
from zoo import read_table, warm_up  # noqa: E402

TABLE = HERE / "speed.csv"
WARMUP, LEAST_STEPS, LEAST_S = 3, 20, 1.5
TIMEOUT_S = 600
MEDIAN, WORST = 0.64, 1.02  # what should hold


def measure(name: str, folder: pathlib.Path) -> Outcome:
    """Milliseconds of the quickest step of either; never raises for what the model does."""
    stage = Stage(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stage.enter("compile")
            step = reference.load_step(STEP_FILE, [f"--model={name}"])
            for group in step.optimizer.param_groups:
                group["lr"] = 0.0  # some would diverge: each step has the same batch
            batch = dict(step.inputs)
            with fsdp_mlir.compile(step, out=folder / "out", cache=False) as run:
                stage.enter("run")
                with every_layer(step.model):
                    theirs, ours = _least(lambda: _eager(step), lambda: run(batch).item())
        return Outcome(PASSED, figures={"eager_ms": 1e3 * theirs, "ours_ms": 1e3 * ours})
    except Exception as error:
        return failure(error, folder, stage)


def _eager(step: fsdp_mlir.TrainingStep) -> float:
    loss = step.loss(step.model, **step.inputs)
    loss.backward()
    step.optimizer.step()
    step.optimizer.zero_grad()
    return loss.item()


def _least(*steps: Callable[[], float]) -> list[float]:
    """Seconds of the quickest call of each, called in turns."""
    for step in steps:
        for _ in range(WARMUP):
            step()
    gc.collect()
    gc.disable()
    best, rounds, ends = [float("inf")] * len(steps), 0, time.perf_counter() + LEAST_S
    while rounds < LEAST_STEPS or time.perf_counter() < ends:
        for i, step in enumerate(steps):
            begin = time.perf_counter()
            step()
            best[i] = min(best[i], time.perf_counter() - begin)
        rounds += 1
    return best


def ratios(results: dict[str, Outcome]) -> dict[str, float]:
    figures = {name: o.figures for name, o in results.items() if o.status == PASSED}
    return {name: f["ours_ms"] / f["eager_ms"] for name, f in figures.items()}


def text(found: dict[str, float]) -> str:
    """The median, and those that are slower than they should be."""
    median = statistics.median(found.values())
    slow = sorted((ratio, name) for name, ratio in found.items() if ratio > WORST)[::-1]
    lines = [f"{len(found)} models: median {median:.2f} x eager ({MEDIAN} wanted), "]
    lines[0] += f"{len(slow)} above {WORST}"
    return "\n".join(lines + [f"  {ratio:.2f} {name}" for ratio, name in slow])


def write(results: dict[str, Outcome], path: pathlib.Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "eager_ms", "ours_ms", "ratio"])
        for name, ratio in sorted(ratios(results).items()):
            figures = results[name].figures
            writer.writerow(
                [name, f"{figures['eager_ms']:.3f}", f"{figures['ours_ms']:.3f}", f"{ratio:.2f}"]
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="models whose name contains one of these")
    parser.add_argument("--jobs", "-j", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path, help="table to write")
    flags = parser.parse_args()
    names = [name for name, outcome in read_table().items() if outcome.status != REFUSED]
    if flags.only:
        names = [name for name in names if any(part in name for part in flags.only)]
    with tempfile.TemporaryDirectory(prefix="fsdp-zoo-") as temporary:
        folder = pathlib.Path(temporary)
        warm_up(folder)
        results = outcomes.run(
            names, measure, str, folder, flags.jobs, TIMEOUT_S, bool(flags.only), tidy=True
        )
    failures = [
        f"{name}: {outcome.stage}: {outcome.reason}"
        for name, outcome in results.items()
        if outcome.status != PASSED
    ]
    if found := ratios(results):
        print(text(found))
    if flags.output or not flags.only:
        write(results, flags.output or TABLE)
    return outcomes.conclude(failures)


if __name__ == "__main__":
    sys.exit(main())

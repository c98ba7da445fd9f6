"""What a step costs more where a run is watched: by metrics and event files, and by a trace."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any, Callable

from bench.contestants import CONTESTANTS
from bench.files import Files
from bench.models import MODELS
from bench.turn import Failed, environment
from support import chain

# Short rounds, and many: of these the quickest ones are those that nothing else disturbed. On a shared
# machine the medians of rounds differ by more than watching costs.
MODEL, STEPS, ROUNDS = "small", 10, 20
# At most of a step that is not watched.
GOALS = {"metrics": 1.005, "trace": 1.02}
# Of each way but the first: what it is called.
WAYS = {
    "nothing": "not watched",
    "metrics": "with metrics and event files",
    "trace": "traced",
}


def measure(
    folder: pathlib.Path,
    say: Callable[[str], None],
    model: str = MODEL,
    steps: int = STEPS,
    rounds: int = ROUNDS,
) -> dict[str, Any]:
    """By way, in turns: milliseconds of a step, the least of the rounds, and their ratios to those of a
    step that is not watched.

    Raises:
        Failed: a run failed. ChainError: the step cannot be compiled.
    """
    files = Files(MODELS[model], folder, fused=True)
    compiled = files.plan("watched", CONTESTANTS["flat-overlap"].pipeline)
    say(f"watching: {rounds} rounds of {model}, each of {', '.join(WAYS)}")
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            times[way].append(_step_ms(compiled, folder, way, steps))
    least = {way: min(found) for way, found in times.items()}
    ratios = {way: found / least["nothing"] for way, found in least.items()}
    return {"model": model, "step_ms": least, "ratios": ratios}


def _step_ms(compiled: chain.Compiled, folder: pathlib.Path, way: str, steps: int) -> float:
    """The mean of the second half of a run of twice as many steps, by the clock of its event file,
    which logs at both ends of it in any case."""
    events = folder / "events"
    shutil.rmtree(events, ignore_errors=True)
    words = [*chain.run_arguments(compiled, 2 * steps), "--nproc", "2", "--progress", "none"]
    words += ["--tensorboard", events]
    if way == "metrics":
        words += ["--metrics", folder / "metrics.jsonl"]
    else:
        words += ["--log-interval", steps]
    if way == "trace":
        words += ["--trace", folder / "trace.json", "--trace-steps", f"{steps + 1}:{2 * steps}"]
    try:
        chain.command([str(word) for word in words], env=environment(OMP_NUM_THREADS="1"))
    except chain.ChainError as error:
        raise Failed(f"fsdp-run failed: {error}") from error
    ends = _ends(events)
    return 1e3 * (ends[2 * steps] - ends[steps]) / steps


def _ends(events: pathlib.Path) -> dict[int, float]:
    """By logged step: the time of its end."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(events), size_guidance={"scalars": 0})
    reader.Reload()
    return {event.step: event.wall_time for event in reader.Scalars("loss_metrics/global_avg_loss")}


def text(figures: dict[str, Any]) -> str:
    lines = [f"\na step of {figures['model']}: {figures['step_ms']['nothing']:.2f} ms"]
    for way, goal in GOALS.items():
        ratio = figures["ratios"][way]
        verdict = "met" if ratio <= goal else "NOT met"
        lines.append(f"  {WAYS[way]}: {ratio:.3f} of it (≤ {goal}, {verdict})")
    return "\n".join(lines)

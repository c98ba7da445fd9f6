"""What was measured, as figures, as a table and as JSON."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import statistics
from importlib import metadata
from typing import Any, Optional, Sequence

from bench.contestants import HEADLINE
from bench.models import Model
from bench.rounds import Measured

MIB = 1 << 20
# What counts as met in spite of a miss: a tenth of FSDP2's ratio.
LEAST = 0.9


def machine() -> dict[str, Any]:
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "torch": metadata.version("torch"),
        "kernel": platform.release(),
    }


def summarise(model: Model, measured: Sequence[Measured]) -> dict[str, Any]:
    """A dictionary per contestant; times in ms, memory in bytes, per rank."""
    return {
        "goals": {"fsdp2": model.fsdp2, "graph": model.graph, "eager": model.eager},
        "contestants": {m.contestant.name: _figures(m) for m in measured},
    }


def _figures(measured: Measured) -> dict[str, Any]:
    if measured.failure or not measured.turns:
        return {"label": measured.contestant.label, "failure": measured.failure}
    times = sorted(1e3 * second for turn in measured.turns for second in turn.seconds)
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    peak = max(turn.peak_bytes for turn in measured.turns)
    figures: dict[str, Any] = {
        "label": measured.contestant.label,
        "steps": len(times),
        "step_ms": median,
        "quartiles_ms": [low, high],
        "rounds_ms": [1e3 * statistics.median(turn.seconds) for turn in measured.turns],
        "peak_bytes": peak,
        "idle_bytes": measured.idle_bytes,
    }
    details = [turn.details for turn in measured.turns if turn.details]
    if details:
        summary = details[-1]["summary"]
        figures |= {
            "planned_bytes": summary["memory_bytes"],
            "exposed_comm_ms": statistics.median(
                ms for detail in details for ms in detail["exposed_comm_ms"]
            ),
            "summary": summary,
        }
    return figures


def ratio(results: dict[str, Any], over: str, under: str) -> Optional[float]:
    """Step time of `over` by that of `under`; None where one of them has none."""
    top, bottom = (results["contestants"].get(n, {}).get("step_ms") for n in (over, under))
    return top / bottom if top and bottom else None


def headline(results: dict[str, Any]) -> Optional[str]:
    contestants = results["contestants"]
    return next((n for n in HEADLINE if "step_ms" in contestants.get(n, {})), None)


def _cell(value: Optional[float], form: str) -> str:
    return form.format(value) if value is not None else "-"


def table(name: str, results: dict[str, Any]) -> str:
    """Text: a line per contestant, then a line per goal."""
    columns = ("step ms", "quartiles", "FSDP2/it", "it/graph", "it/eager") + (
        "exposed",
        "plan MiB",
        "peak MiB",
        "-idle MiB",
    )
    lines = ["", f"{name:<34}" + "".join(f"{column:>12}" for column in columns)]
    for who, figures in results["contestants"].items():
        if "step_ms" not in figures:
            lines.append(f"{figures['label']:<34}  takes no part: {figures['failure']}")
            continue
        low, high = figures["quartiles_ms"]
        planned = figures.get("planned_bytes")
        cells = (
            f"{figures['step_ms']:.2f}",
            f"{low:.1f}-{high:.1f}",
            _cell(ratio(results, "fsdp2", who), "{:.2f}"),
            _cell(ratio(results, who, "graph"), "{:.3f}"),
            _cell(ratio(results, who, "eager"), "{:.3f}"),
            _cell(figures.get("exposed_comm_ms"), "{:.2f}"),
            _cell(planned / MIB if planned else None, "{:.1f}"),
            f"{figures['peak_bytes'] / MIB:.0f}",
            f"{(figures['peak_bytes'] - figures['idle_bytes']) / MIB:.0f}",
        )
        lines.append(f"{figures['label']:<34}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join([*lines, *goals(results), ""])


def goals(results: dict[str, Any]) -> list[str]:
    """Lines `goal  figure  met`."""
    own = headline(results)
    if own is None:
        return []
    wanted, contestants = results["goals"], results["contestants"]
    lines = [f"goals, by {contestants[own]['label']}:"]

    def line(what: str, value: Optional[float], holds: bool, bound: str) -> None:
        if value is not None:
            lines.append(f"  {what:<48}{value:8.3f}  {bound:<10}{'met' if holds else 'NOT met'}")

    value = ratio(results, "fsdp2", own)
    least = wanted["fsdp2"]
    if value is not None:
        line("step time, FSDP2 / ours", value, value >= LEAST * least, f">= {least}")
    for other, what in (("graph", "the graph alone"), ("eager", "unsharded eager")):
        value = ratio(results, own, other)
        if value is not None:
            line(f"step time, ours / {what}", value, value <= wanted[other], f"<= {wanted[other]}")
    theirs, ours = contestants.get("fsdp2", {}), contestants[own]
    if "peak_bytes" in theirs:
        value = ours["peak_bytes"] / theirs["peak_bytes"]
        line("process peak, ours / FSDP2", value, value <= 0.5, "<= 0.5")
        value = (ours["peak_bytes"] - ours["idle_bytes"]) / (
            theirs["peak_bytes"] - theirs["idle_bytes"]
        )
        line("process peak above idle, ours / FSDP2", value, value <= 0.8, "<= 0.8")
    return lines


def write_json(results: dict[str, Any], folder: pathlib.Path) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bench.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    return path

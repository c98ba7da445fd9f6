"""What was measured, as figures: dictionaries that JSON can hold.

Times are in ms, memory in bytes and per rank; `step_ms` are medians over all turns.
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import statistics
import time
from importlib import metadata
from typing import Any, Optional, Sequence

from bench.contestants import HEADLINE, SCHEDULES, WIRE_FREE, WIRED
from bench.models import Model
from bench.rounds import Measured
from bench.wire import Wire

Figures = dict[str, Any]


def machine() -> Figures:
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "torch": metadata.version("torch"),
        "kernel": platform.release().split("-")[0],
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def summarise(model: Model, measured: Sequence[Measured], wires: Sequence[Wire]) -> Figures:
    by_name = {m.contestant.name: m for m in measured}
    on_wire = {WIRE_FREE.name, *(contestant.name for contestant in WIRED.values())}
    headline = next((n for n in HEADLINE if n in by_name and by_name[n].turns), None)
    figures: Figures = {
        "goals": dict(model.goals),
        "headline": headline,
        "contestants": {n: contestant(m) for n, m in by_name.items() if n not in on_wire},
    }
    if wires:
        figures["overlap"] = _overlap(by_name, wires)
    return figures


def contestant(measured: Measured) -> Figures:
    figures: Figures = {"label": measured.contestant.label}
    if not measured.turns:
        return figures | {"failure": measured.failure}
    times = sorted(1e3 * second for turn in measured.turns for second in turn.seconds)
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    figures |= {
        "steps": len(times),
        "step_ms": median,
        "quartiles_ms": [low, high],
        "rounds_ms": [1e3 * statistics.median(turn.seconds) for turn in measured.turns],
        "peak_bytes": max(turn.peak_bytes for turn in measured.turns),
        "idle_bytes": measured.idle_bytes,
    }
    return figures | _own(measured) if measured.turns[-1].details else figures


def _own(measured: Measured) -> Figures:
    """What only this project's runs report: docs/metrics.md."""
    details = [turn.details for turn in measured.turns]
    summary = details[-1]["summary"]
    steps = summary["steps"]
    # A window shows other ranks' arenas: it has no bytes of its own.
    planned = summary["arenas"]["device"]
    allocated = summary["step_allocated_bytes"] / max(1, steps - 1)
    times = {
        key: [ms for detail in details for ms in detail[key]]
        for key in ("exposed_comm_ms", "launch_ms")
    }
    return {
        **{key: statistics.median(values) for key, values in times.items() if values},
        "copied_bytes": summary["communication_copied_bytes"] / steps,
        "allocated_bytes": allocated,
        "planned_bytes": planned,
        "live_bytes": summary["live_bytes"],
        "measured_bytes": planned + summary["scratch_bytes"] + allocated,
        "summary": summary,
    }


def _overlap(by_name: dict[str, Measured], wires: Sequence[Wire]) -> Figures:
    """Each round has its own wire and compute; the figures are medians over the rounds."""
    schedules: Figures = {}
    for schedule in SCHEDULES:
        measured = by_name[WIRED[schedule].name]
        if not measured.turns:
            schedules[schedule] = {"failure": measured.failure}
            continue
        steps = [1e3 * statistics.median(turn.seconds) for turn in measured.turns]
        schedules[schedule] = {
            "step_ms": statistics.median(steps),
            "exposed_comm_ms": statistics.median(
                ms for turn in measured.turns for ms in turn.details["exposed_comm_ms"]
            ),
            "by_compute": statistics.median(
                step / wire.compute_ms for step, wire in zip(steps, wires)
            ),
        }
    return {
        "bytes_per_s": statistics.median(wire.bytes_per_s for wire in wires),
        "compute_ms": statistics.median(wire.compute_ms for wire in wires),
        "schedules": schedules,
    }


def ratio(model: Figures, over: Optional[str], under: Optional[str]) -> Optional[float]:
    """Step time of `over` by that of `under`; None where one of them has none."""
    top, bottom = (model["contestants"].get(n, {}).get("step_ms") for n in (over, under))
    return top / bottom if top and bottom else None


def write(results: Figures, folder: pathlib.Path) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bench.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    return path

"""Figures as text for a terminal."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from bench import goals
from bench.figures import Figures, ratio

MIB = 1 << 20
_COLUMNS = ("step ms", "quartiles", "FSDP2/it", "it/graph", "it/eager", "exposed ms", "copied KiB")
_MEMORY = ("planned", "live", "measured", "process", "- idle")


def _cell(value: Optional[float], form: str, scale: float = 1) -> str:
    return form.format(value / scale) if value is not None else "-"


def steps(name: str, model: Figures) -> str:
    """A line per contestant; memory in MiB."""
    titles = "".join(f"{c:>12}" for c in _COLUMNS) + "".join(f"{c:>9}" for c in _MEMORY)
    lines = ["", f"{name:<36}{titles}"]
    for who, figures in model["contestants"].items():
        if "step_ms" not in figures:
            lines.append(f"{figures['label']:<36}  not available: {figures['failure']}")
            continue
        low, high = figures["quartiles_ms"]
        cells = (
            f"{figures['step_ms']:.2f}",
            f"{low:.1f}-{high:.1f}",
            _cell(ratio(model, "fsdp2", who), "{:.2f}"),
            _cell(ratio(model, who, "graph"), "{:.3f}"),
            _cell(ratio(model, who, "eager"), "{:.3f}"),
            _cell(figures.get("exposed_comm_ms"), "{:.2f}"),
            _cell(figures.get("copied_bytes"), "{:.1f}", 1024),
        )
        memory = (
            *(figures.get(f"{kind}_bytes") for kind in ("planned", "live", "measured", "peak")),
            figures["peak_bytes"] - figures["idle_bytes"],
        )
        lines.append(
            f"{figures['label']:<36}"
            + "".join(f"{cell:>12}" for cell in cells)
            + "".join(f"{_cell(bytes_, '{:.1f}', MIB):>9}" for bytes_ in memory)
        )
    return "\n".join(lines)


def overlap(model: Figures) -> str:
    """A line per schedule on the wire."""
    figures = model.get("overlap")
    if not figures:
        return ""
    lines = [
        f"throttled to {figures['bytes_per_s'] / 1e9:.3f} GB/s a rank and channel, where "
        f"communication takes as long as compute alone, {figures['compute_ms']:.1f} ms:"
    ]
    for schedule, row in figures["schedules"].items():
        if "failure" in row:
            lines.append(f"  schedule={schedule:<10} not available: {row['failure']}")
        else:
            lines.append(
                f"  schedule={schedule:<10}{row['step_ms']:9.1f} ms, {row['by_compute']:.3f} of "
                f"compute, {row['exposed_comm_ms']:.1f} ms exposed"
            )
    return "\n".join(lines)


def goal_lines(model: Figures, table: Sequence[goals.Goal] = goals.GOALS) -> str:
    rows = goals.rows(model, table)
    if not rows:
        return ""
    lines = [f"goals, by {model['contestants'][model['headline']]['label']}:"]
    lines += [f"  {row.what:<66}{row.shown:>10}  {row.limit:<8} {row.verdict}" for row in rows]
    return "\n".join(lines)


def compile_times(rows: list[dict[str, Any]]) -> str:
    lines = ["", f"{'fsdp-opt, whole pipeline':<26}{'layers':>8}{'s':>8}{'peak GB':>10}"]
    for row in rows:
        what = f"Llama 3 {row['size']} {row['layout']}"
        lines.append(f"{what:<26}{row['layers']:>8}{row['seconds']:>8.2f}{row['peak_gb']:>10.2f}")
    return "\n".join(lines)

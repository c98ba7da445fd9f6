"""Figures as Markdown, in the pages that show them.

A page marks where: `<!-- bench NAME -->` and `<!-- end -->` stand around what is written anew.
"""

from __future__ import annotations

import pathlib
import re
from typing import Optional

from bench import bound, charts, goals, timelines
from bench.contestants import SCHEDULES
from bench.figures import Figures, ratio, write
from bench.models import MODELS

MIB = 1 << 20
PAGES = ("README.md", "docs/performance.md")
_BLOCK = re.compile(r"(<!-- bench (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def update(results: Figures, root: pathlib.Path) -> list[pathlib.Path]:
    """Writes docs/bench.json, the charts, and the marked blocks of the pages.

    Raises:
        KeyError: a page marks a block that does not exist.
    """
    docs = root / "docs"
    if pictures := results.pop("timelines", None):
        (docs / "timelines.svg").write_text(timelines.svg(pictures, machine(results)))
        if not results["models"]:
            return [docs / "timelines.svg"]
    written = [write(results, docs)]
    if results["models"]:
        charts.bench(results, docs / "bench.png")
        written.append(docs / "bench.png")
    if results.get("compile"):
        charts.compile_time(results["compile"], docs / "compile_time.png")
        written.append(docs / "compile_time.png")
    for name in PAGES:
        page = root / name
        text = page.read_text()
        new = _BLOCK.sub(lambda m: f"{m[1]}{BLOCKS[m[2]](results)}\n{m[3]}", text)
        if new != text:
            page.write_text(new)
            written.append(page)
    return written


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def machine(results: Figures) -> str:
    m = results["machine"]
    return (
        f"Measured on {m['date']}: {m['cpu']}, {m['cores']} cores, Linux {m['kernel']}, "
        f"PyTorch {m['torch']}; two ranks, one thread each."
    )


def goal_table(results: Figures) -> str:
    """A row per goal, a column per model."""
    models = results["models"]
    by_model = {name: {row.what: row for row in goals.rows(m)} for name, m in models.items()}
    rows = []
    for goal in goals.GOALS:
        cells = [by_model[name].get(goal.what) for name in models]
        if any(cells):
            rows.append([goal.what, *(_goal(row) for row in cells)])
    return _table(["", *models], rows)


# The figures that a newcomer sees, by the goal that each is of.
SHORT = (
    ("one step: FSDP2's time ÷ ours", "step time, FSDP2 eager ÷ ours"),
    ("a process at its peak: our memory ÷ FSDP2's", "process peak, ours ÷ FSDP2"),
    ("bytes that a step copies to communicate", "bytes copied for communication in a step"),
)


def short_table(results: Figures) -> str:
    """Three figures of each model, without the goals."""
    models = results["models"]
    by_model = {name: {row.what: row for row in goals.rows(m)} for name, m in models.items()}
    rows = []
    for label, what in SHORT:
        found = [by_model[name].get(what) for name in models]
        rows.append([label, *(f"**{row.shown}**" if row else "–" for row in found)])
    return _table(["", *(f"{name} model" for name in models)], rows)


def _goal(row: Optional[goals.Row]) -> str:
    if row is None:
        return "–"
    verdict = "" if row.verdict == "met" else f", {row.verdict}"
    return f"**{row.shown}** ({row.limit}{verdict})"


def step_tables(results: Figures) -> str:
    return "\n\n".join(_steps(name, model) for name, model in results["models"].items())


def _steps(name: str, model: Figures) -> str:
    rows = []
    for who, figures in model["contestants"].items():
        if "step_ms" not in figures:
            rows.append([figures["label"], f"not available: {figures['failure']}", *[""] * 4])
            continue
        low, high = figures["quartiles_ms"]
        rows.append(
            [
                figures["label"],
                f"{figures['step_ms']:.2f} ({low:.1f}–{high:.1f})",
                *(
                    f"{value:.2f}" if value else "–"
                    for value in (
                        ratio(model, "fsdp2", who),
                        ratio(model, who, "graph"),
                        ratio(model, who, "eager"),
                    )
                ),
                _or_dash(figures.get("exposed_comm_ms"), 1),
            ]
        )
    header = [f"**{name}**", "step, ms (quartiles)", "FSDP2 ÷ it", "it ÷ operators alone"]
    return _table([*header, "it ÷ unsharded eager", "exposed, ms"], rows)


def _or_dash(value: Optional[float], scale: float, form: str = "{:.2f}") -> str:
    return "–" if value is None else form.format(value / scale)


def memory_table(results: Figures) -> str:
    rows = []
    for name, model in results["models"].items():
        for who in dict.fromkeys(("fsdp2", "dim0-overlap", model["headline"])):
            figures = model["contestants"].get(who, {})
            if "step_ms" not in figures:
                continue
            held = [figures.get(f"{kind}_bytes") for kind in ("planned", "live", "measured")]
            rows.append(
                [
                    name,
                    figures["label"],
                    *(_or_dash(value, MIB, "{:.1f}") for value in held),
                    f"{figures['peak_bytes'] / MIB:.0f}",
                    f"{(figures['peak_bytes'] - figures['idle_bytes']) / MIB:.0f}",
                    _or_dash(figures.get("copied_bytes"), 1024, "{:.0f}"),
                    _or_dash(figures.get("allocated_bytes"), 1, "{:.0f}"),
                ]
            )
    header = ["", "", "planned", "live", "measured", "process", "above idle"]
    return _table([*header, "copied a step, KiB", "allocated a step, bytes"], rows)


def overlap_table(results: Figures) -> str:
    rows = []
    for name, model in results["models"].items():
        figures = model.get("overlap")
        if not figures:
            continue
        cells = []
        for schedule in SCHEDULES:
            row = figures["schedules"][schedule]
            cells.append(
                f"not available: {row['failure']}"
                if "failure" in row
                else f"{row['by_compute']:.2f} ({row['step_ms']:.1f} ms, "
                f"{row['exposed_comm_ms']:.1f} exposed)"
            )
        wire = f"{figures['bytes_per_s'] / 1e9:.3f}"
        least = f"{bound.least(MODELS[name]):.2f}"
        rows.append([name, wire, f"{figures['compute_ms']:.1f}", least, *cells])
    header = ["", "wire, GB/s", "compute alone, ms", "least of whole units"]
    header += [f"schedule={s}" for s in SCHEDULES]
    return _table(header, rows)


def compile_table(results: Figures) -> str:
    cells = [
        [
            f"{r['size']} {r['layout']}",
            str(r["layers"]),
            f"{r['seconds']:.2f}",
            f"{r['peak_gb']:.2f}",
        ]
        for r in results.get("compile", [])
    ]
    return _table(["Llama 3", "layers", "s", "peak, GB"], cells)


BLOCKS = {
    "machine": machine,
    "goals": goal_table,
    "short": short_table,
    "steps": step_tables,
    "memory": memory_table,
    "overlap": overlap_table,
    "compile": compile_table,
}

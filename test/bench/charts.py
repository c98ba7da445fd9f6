"""Figures as pictures."""

from __future__ import annotations

import pathlib
from typing import Any

from bench.figures import Figures

INK, GRID = "#24292f", "#d8dee4"
OWN, REFERENCE, OTHER, FLOOR = "#1f6feb", "#6e7781", "#afb8c1", "#8ddb8c"

# The bars of the step time, from above, with short names.
BARS = {
    "fsdp2": ("FSDP2 eager", REFERENCE),
    "fsdp2-compile": ("FSDP2 torch.compile", OTHER),
    "ddp": ("DDP", OTHER),
    "eager": ("unsharded eager", OTHER),
    "graph": ("operators alone", FLOOR),
    "dim0-overlap": ("fsdp-mlir dim0", OWN),
    "flat-overlap": ("fsdp-mlir flat", OWN),
}


def _figure(width: float, height: float) -> Any:
    # Drawn without pyplot, which would look for a screen.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=(width, height), dpi=140, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _style(axes: Any, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, color=INK, fontweight="bold")
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=9, length=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GRID)


def bench(results: Figures, target: pathlib.Path) -> None:
    """Step times of each model above; memory and overlap below."""
    models = results["models"]
    figure = _figure(13, 7.2)
    grid = figure.add_gridspec(2, 6 * len(models), height_ratios=(1.15, 1))
    for column, (name, model) in enumerate(models.items()):
        axes = figure.add_subplot(grid[0, 6 * column : 6 * column + 6])
        _steps(axes, name, model, labelled=column == 0)
    half = 3 * len(models)
    _memory(figure.add_subplot(grid[1, :half]), models)
    if any("overlap" in model for model in models.values()):
        _overlap(figure.add_subplot(grid[1, half:]), models)
    machine = results["machine"]
    figure.suptitle(
        f"2 ranks, one thread each, in turns, AdamW, fp32, PyTorch {machine['torch']}, "
        f"{machine['cpu']}",
        fontsize=10,
        color=INK,
    )
    figure.savefig(target)


def _steps(axes: Any, name: str, model: Figures, labelled: bool) -> None:
    contestants = model["contestants"]
    shown = [who for who in BARS if who in contestants]
    _style(axes, f"{name}: step time, ms")
    axes.spines["left"].set_visible(False)
    axes.xaxis.grid(color=GRID, lw=0.8)
    # One that is not available has no bar.
    times = [contestants[who].get("step_ms", 0) for who in shown]
    colors = [BARS[who][1] for who in shown]
    axes.barh(range(len(shown)), times, color=colors, height=0.7)
    names = [BARS[who][0] if labelled else "" for who in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.4 * max(times))
    reference = contestants.get("fsdp2", {}).get("step_ms")
    for row, time in enumerate(times):
        text = f" {time:.3g}" if time < 1000 else f" {time:.0f}"
        if not time:
            text = " not available"
        elif reference and shown[row] != "fsdp2":
            text += f"  ({reference / time:.2f}×)"
        axes.text(time, row, text, va="center", fontsize=8.5, color=INK)
    if reference:
        axes.axvline(reference, color=REFERENCE, lw=0.9, ls="--", zorder=0)


def _memory(axes: Any, models: dict[str, Figures]) -> None:
    """Peak of a whole process: what it takes idle, and what training adds."""
    _style(axes, "process peak memory, MiB: idle (pale) and training")
    axes.yaxis.grid(color=GRID, lw=0.8)
    ticks = []
    for place, (name, model) in enumerate(models.items()):
        for side, (who, color) in enumerate((("fsdp2", REFERENCE), (model["headline"], OWN))):
            figures = model["contestants"].get(who, {})
            if "peak_bytes" not in figures:
                continue
            x = place + (side - 0.5) * 0.36
            idle, peak = (figures[key] / 2**20 for key in ("idle_bytes", "peak_bytes"))
            axes.bar(x, idle, width=0.32, color=color, alpha=0.35)
            axes.bar(x, peak - idle, width=0.32, bottom=idle, color=color)
            text = f"{peak:.0f}\n(+{peak - idle:.0f})"
            axes.text(x, peak, text, ha="center", va="bottom", fontsize=8.5, color=INK)
        ticks.append(f"{name}\nFSDP2   ours")
    axes.set_xticks(range(len(ticks)), ticks)
    axes.margins(y=0.18)


def _overlap(axes: Any, models: dict[str, Figures]) -> None:
    colors = {"overlap": OWN, "fsdp2": REFERENCE, "naive": OTHER}
    _style(axes, "step ÷ compute where communication is throttled to take as long")
    axes.yaxis.grid(color=GRID, lw=0.8)
    measured = [name for name, model in models.items() if "overlap" in model]
    for place, name in enumerate(measured):
        for side, (schedule, row) in enumerate(models[name]["overlap"]["schedules"].items()):
            if "by_compute" not in row:
                continue
            x, height = place + (side - 1) * 0.27, row["by_compute"]
            label = f"schedule={schedule}" if place == 0 else None
            axes.bar(x, height, width=0.24, color=colors[schedule], label=label)
            axes.text(x, height, f"{height:.2f}", ha="center", va="bottom", fontsize=8.5, color=INK)
    axes.axhline(1, color=INK, lw=0.9, ls="--")
    axes.set_xticks(range(len(measured)), measured)
    axes.set_ylim(0, max(2.5, axes.get_ylim()[1]) * 1.12)  # the legend is above the bars
    axes.legend(frameon=False, fontsize=8.5, ncols=3, loc="upper left")


def compile_time(rows: list[dict[str, Any]], target: pathlib.Path) -> None:
    """Seconds and memory of fsdp-opt by layers, a line per size and layout."""
    figure = _figure(10, 3.8)
    colors = {"8b": OTHER, "70b": REFERENCE, "405b": OWN}
    for place, (key, what) in enumerate((("seconds", "seconds"), ("peak_gb", "peak memory, GB"))):
        axes = figure.add_subplot(1, 2, place + 1)
        _style(axes, f"fsdp-opt, whole pipeline: {what}")
        axes.grid(color=GRID, lw=0.8)
        for size in dict.fromkeys(row["size"] for row in rows):
            for layout, line in (("dim0", "--"), ("flat", "-")):
                points = [
                    (row["layers"], row[key])
                    for row in rows
                    if (row["size"], row["layout"]) == (size, layout)
                ]
                label = f"Llama 3 {size}, {layout}"
                axes.plot(
                    *zip(*points), line, color=colors[size], marker="o", ms=4, lw=1.6, label=label
                )
        axes.set_xlabel("layers", color=INK)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8.5)
    figure.savefig(target)

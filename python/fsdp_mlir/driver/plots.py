"""The loss curve of a run as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional


def loss_curve(rows: list[dict[str, Any]], target: Path, title: str) -> bool:
    """Draws the loss of each step, and the evaluation's where there is one,
    from metrics rows into a PNG. False, and no file, where there is no loss."""
    train = points(rows, "loss")
    evaluated = points(rows, "eval_loss")
    if not train:
        return False
    # Drawn without pyplot, which would look for a screen.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    steps, losses = zip(*train)
    window = max(1, len(train) // 50)
    smooth = window > 2
    axes.plot(
        steps,
        losses,
        color="tab:blue",
        lw=0.8 if smooth else 1.6,
        alpha=0.4 if smooth else 1,
        label=None if smooth else "training",
    )
    if smooth:
        axes.plot(
            steps,
            moving_mean(losses, window),
            color="tab:blue",
            lw=1.8,
            label=f"training (mean of {window} steps)",
        )
    if evaluated:
        axes.plot(*zip(*evaluated), color="tab:orange", marker="o", lw=1.8, label="evaluation")
    axes.set_title(title)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(target)
    return True


def points(rows: list[dict[str, Any]], key: str) -> list[tuple[int, float]]:
    """(step, value) of the rows that have a value for `key`."""
    found: list[tuple[int, float]] = []
    for row in rows:
        value: Optional[float] = row.get(key)
        if isinstance(value, (int, float)) and "step" in row:
            found.append((int(row["step"]), float(value)))
    return found


def moving_mean(values: tuple[float, ...], window: int) -> list[float]:
    """The mean of each value and up to `window` - 1 before it."""
    means, total = [], 0.0
    for i, value in enumerate(values):
        total += value - (values[i - window] if i >= window else 0.0)
        means.append(total / min(i + 1, window))
    return means

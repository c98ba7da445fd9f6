"""Line charts as SVG that needs no script."""

from __future__ import annotations

import math
from typing import Sequence

from .html import Markup, joined, tag

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 420, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 10, 26
# What a picture of this width can show.
_MOST_POINTS = 600
# Those that the page's style has; more lines take them again.
_COLOURS = 10


def line_chart(title: str, unit: str, lines: Sequence[tuple[str, Points]]) -> Markup:
    """Lines over steps, with a legend where there are several. `title` is read out."""
    drawn = [(name, _thin(points)) for name, points in lines if points]
    xs = [x for _, points in drawn for x, _ in points]
    ys = [y for _, points in drawn for _, y in points]
    left, right = min(xs), max(max(xs), min(xs) + 1)
    ticks = _ticks(min(ys), max(ys))
    low, high = ticks[0], ticks[-1]

    def x_of(x: float) -> float:
        return _LEFT + (x - left) / (right - left) * (_WIDTH - _LEFT - _RIGHT)

    def y_of(y: float) -> float:
        return _HEIGHT - _BOTTOM - (y - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    grid = joined(
        part
        for t in ticks
        for part in (
            tag(
                "line",
                x1=str(_LEFT),
                x2=str(_WIDTH - _RIGHT),
                y1=_fixed(y_of(t)),
                y2=_fixed(y_of(t)),
            ),
            tag("text", _short(t), x=str(_LEFT - 6), y=_fixed(y_of(t) + 4), text_anchor="end"),
        )
    )
    ends = joined(
        tag(
            "text",
            f"step {x:,.0f}" if x == left else f"{x:,.0f}",
            x=_fixed(x_of(x)),
            y=str(_HEIGHT - 8),
            text_anchor=anchor,
        )
        for x, anchor in ((left, "start"), (right, "end"))
    )
    curves = joined(
        tag(
            "polyline" if len(points) > 1 else "circle",
            class_=f"line line{i % _COLOURS}",
            **(
                {"points": " ".join(f"{_fixed(x_of(x))},{_fixed(y_of(y))}" for x, y in points)}
                if len(points) > 1
                else {"cx": _fixed(x_of(points[0][0])), "cy": _fixed(y_of(points[0][1])), "r": "4"}
            ),
        )
        for i, (_, points) in enumerate(drawn)
    )
    picture = tag(
        "svg",
        tag(
            "title",
            f"{title}: from {_short(drawn[0][1][0][1])} to {_short(drawn[0][1][-1][1])} {unit}",
        ),
        tag("g", grid, class_="grid"),
        ends,
        curves,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
    )
    legend = joined(
        tag("span", tag("i", class_=f"key line{i % _COLOURS}"), " ", name, class_="entry")
        for i, (name, _) in enumerate(drawn)
    )
    head = tag("figcaption", tag("b", title), f" {unit} ", legend if len(drawn) > 1 else "")
    return tag("figure", head, picture)


def _thin(points: Points) -> Points:
    """Of so many neighbours the lowest and the highest, so that what stands out is seen; and both
    ends."""
    stride = 2 * -(-len(points) // _MOST_POINTS)
    if stride <= 2:
        return points
    kept = {0, len(points) - 1}
    for begin in range(0, len(points), stride):
        block = range(begin, min(begin + stride, len(points)))
        kept |= {pick(block, key=lambda i: points[i][1]) for pick in (min, max)}
    return [points[i] for i in sorted(kept)]


def _ticks(low: float, high: float) -> list[float]:
    """Four to nine round numbers that enclose a range."""
    if high <= low:
        low, high = low - abs(low) * 0.05 - 1e-12, high + abs(high) * 0.05 + 1e-12
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [i * step for i in range(first, last + 1)]


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _fixed(value: float) -> str:
    return f"{value:.1f}"

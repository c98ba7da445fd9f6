"""docs/timelines.svg: a step of each model as the compiler predicts it, and as it ran."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Callable
from xml.sax.saxutils import escape

from bench.files import Files
from bench.models import DEFAULT, MODELS
from fsdp_mlir.report.timeline import Bars, Timeline, timeline
from support import chain

PIPELINE = "mesh=2 shard-layout=flat units=class:Block"
# Which steps are traced, by model: the longer one takes, the fewer.
TRACED = {"tiny": (5, 54), "small": (5, 24), "mid": (5, 9)}
# As in reports; readable on white and on black.
COLOURS = {
    "kernel": "#5b8def",
    "update": "#9a6fd0",
    "copy": "#8a949e",
    "collective": "#1f9d83",
    "exposed": "#e4625a",
}
MEANING = {
    "kernel": "kernels",
    "update": "updates",
    "copy": "copies",
    "collective": "transfers",
    "exposed": "waiting for them",
}
WIDTH, LEFT, ROW, BAR, GAP = 960, 150, 20, 15, 34
LANES = ("compute", "gather", "reduce")

Picture = dict[str, Any]


def measure(folder: pathlib.Path, say: Callable[[str], None]) -> dict[str, Picture]:
    """Of each model what was predicted, and the shortest of the traced steps on rank 0: what else
    the machine does makes a step longer, and never shorter."""
    found = {}
    for name in DEFAULT:
        say(f"timeline of {name}")
        files = Files(MODELS[name], folder / name, fused=True)
        compiled = files.plan("timeline", PIPELINE)
        trace = folder / name / "trace.json"
        flags = ["--nproc", "2", "--progress", "none", "--trace", trace]
        first, last = TRACED[name]
        flags += ["--trace-steps", f"{first}:{last}"]
        chain.command([*chain.run_arguments(compiled, last), *flags], timeout=600)
        found[name] = shortest(json.loads(trace.read_text()))
    return found


def shortest(trace: dict[str, Any]) -> Picture:
    """The prediction and rank 0's shortest step: length and bars by track, in microseconds."""
    events = trace["traceEvents"]
    (first,) = [e["pid"] for e in events if e["ph"] == "M" and e["args"].get("rank") == 0]
    steps = [e for e in events if e["pid"] == first and e.get("cat") == "step"]
    best = min(steps, key=lambda step: step["dur"])
    others = {id(step) for step in steps} - {id(best)}
    kept = [event for event in events if id(event) not in others]
    shown = timeline({"traceEvents": kept})
    predicted, measured, *_ = shown.processes
    return {"predicted": _drawn(shown, predicted), "measured": _drawn(shown, measured)}


def _drawn(shown: Timeline, bars: Bars) -> Picture:
    lanes: dict[str, list[list[Any]]] = {name: [] for name in LANES}
    for name, found in bars.lanes:
        name = name.partition(" ")[0]  # transfers that are under way together have a track each
        for begin, length, number in found if name in lanes else ():
            command = shown.commands[number]
            kind, last = command["kind"], lanes[name][-1:]
            if kind == "kernel" and last and last[0][0] == kind:
                before = last[0]
                if begin / 1e3 - before[1] - before[2] < bars.length / 1e6:
                    before[2] = (begin + length) / 1e3 - before[1]  # neighbours are one bar
                    before[3] = "kernels"
                    continue
            lanes[name].append([kind, begin / 1e3, length / 1e3, command["name"]])
    return {"us": bars.length / 1e3, "exposed_us": bars.exposed_ns / 1e3, "lanes": lanes}


def svg(pictures: dict[str, Picture], machine: str) -> str:
    """The models one below the other; both steps of a model on one clock."""
    lines, y = [], 0
    for name, both in pictures.items():
        longest = max(picture["us"] for picture in both.values())
        scale = (WIDTH - LEFT - 8) / longest
        y += GAP
        lines.append(f'<text x="0" y="{y - 10}" font-weight="bold">{name}</text>')
        for what, picture in both.items():
            said = f"{what}: {_time(picture['us'])}, exposed {_time(picture['exposed_us'])}"
            lines.append(f'<text x="{LEFT}" y="{y - 10}">{escape(said)}</text>')
            for lane, bars in picture["lanes"].items():
                lines.append(f'<text x="0" y="{y + 12}">{lane}</text>')
                for kind, begin, length, title in bars:
                    lines.append(
                        f'<rect x="{LEFT + begin * scale:.1f}" y="{y}" height="{BAR}" '
                        f'width="{max(length * scale, 0.4):.1f}" '
                        f'fill="{COLOURS.get(kind, COLOURS["copy"])}">'
                        f"<title>{escape(title)}: {_time(length)}</title></rect>"
                    )
                y += ROW
            y += GAP - 8
        y -= GAP - 8
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 48}" '
            'font-family="sans-serif" font-size="13" fill="#8a8f98">',
            "<title>A step of each model, predicted and measured</title>",
            *lines,
            _legend(y + 20),
            f'<text x="0" y="{y + 42}">{escape(machine)}</text>',
            "</svg>\n",
        ]
    )


def _legend(y: int) -> str:
    """What the colours are, in a line."""
    parts = []
    for i, (kind, colour) in enumerate(COLOURS.items()):
        x = LEFT + 130 * i
        parts.append(f'<rect x="{x}" y="{y - 10}" height="10" width="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 16}" y="{y}">{MEANING[kind]}</text>')
    return "\n".join(parts)


def _time(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3g} s"
    return f"{us / 1e3:.3g} ms" if us >= 1e3 else f"{us:.0f} µs"

"""docs/timeline.svg: a step as the cost model predicts it, drawn from the trace of its plan; and
docs/parameter.svg, the same with one block in colour."""

from __future__ import annotations

import functools
import json
import pathlib
import sys
import tempfile
from typing import Any, Iterator
from xml.sax.saxutils import escape

from support import chain

PICTURE = chain.ROOT / "docs" / "timeline.svg"
OF_BLOCK, BLOCK = chain.ROOT / "docs" / "parameter.svg", 1
STEP = pathlib.Path(__file__).with_name("timeline_step.py")
OPTIONS = "mesh=8 device=cuda cluster=h100x8"
LANES = ("compute", "gather", "reduce")
# Readable on white and on black; the last one is for what belongs to no block.
COLOURS = ("#4c8bf5", "#e8743b", "#2aa876", "#b45fc9", "#8a8f98")
NONE = len(COLOURS) - 1
WIDTH, LEFT, TOP, ROW, BAR = 960, 70, 26, 34, 24

Json = dict[str, Any]


@functools.lru_cache(maxsize=1)
def predicted() -> Json:
    """The trace of the step's plan."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        archive = folder / "step.pt"
        export = [sys.executable, "-m", "fsdp_mlir.export", "--no-weights", "-o", archive, STEP]
        chain.command(export, env=chain.environment(WORLD_SIZE="8"))
        plan = chain.lower(STEP, archive, folder, (), OPTIONS).plan
        command = [chain.binary("fsdp-translate"), "--plan-to-trace", plan]
        trace: Json = json.loads(chain.command(command).stdout)
    return trace


def bars(trace: Json) -> Iterator[tuple[str, float, float, int, str]]:
    """Lane, begin and length in us, block and name of what ran, neighbours of a block as one."""
    lanes = {
        event["tid"]: event["args"]["name"]
        for event in trace["traceEvents"]
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    last: dict[str, tuple[float, float, int, str]] = {}
    for event in trace["traceEvents"]:
        lane = lanes.get(event["tid"], "")
        if event["ph"] != "X" or lane not in LANES or event["cat"] == "exposed":
            continue
        block = _block(event)
        of = "no block" if block == NONE else f"block {block}"
        name = event["name"] if event["cat"] == "collective" else f"compute of {of}"
        begin, end = event["ts"], event["ts"] + event["dur"]
        before = last.get(lane)
        if before and before[2:] == (block, name) and begin - before[1] < 1:
            last[lane] = (before[0], end, block, name)
            continue
        if before:
            yield lane, before[0], before[1] - before[0], *before[2:]
        last[lane] = (begin, end, block, name)
    for lane, (begin, end, block, name) in last.items():
        yield lane, begin, end - begin, block, name


def _block(event: Json) -> int:
    """The number of the block whose unit or module it belongs to, or NONE."""
    words = event["args"].get("unit", "") or event["args"].get("module", "")
    first = words.partition(".")[0]
    return int(first) if first.isdigit() else NONE


def svg(trace: Json, only: int | None = None) -> str:
    """The picture, with what each bar is as its title; `only` one block has a colour."""
    found = list(bars(trace))
    end = max(begin + length for _, begin, length, *_ in found)
    scale = (WIDTH - LEFT - 10) / end
    height = TOP + ROW * len(LANES) + 30
    legend = "a colour for each block, grey for none"
    if only is not None:
        legend = "the second block in colour, the rest in grey"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13" fill="#8a8f98">',
        "<title>A training step of four blocks on eight GPUs, as it is predicted</title>",
        f'<text x="{LEFT}" y="16">one step of four blocks on 8 x H100, predicted: '
        f"{end / 1000:.1f} ms; {legend}</text>",
    ]
    for row, lane in enumerate(LANES):
        y = TOP + ROW * row
        lines.append(f'<text x="0" y="{y + 17}">{lane}</text>')
        for its, begin, length, block, name in found:
            if its == lane:
                colour = COLOURS[block if only in (None, block) else NONE]
                lines.append(
                    f'<rect x="{LEFT + begin * scale:.1f}" y="{y}" '
                    f'width="{max(length * scale - 0.5, 0.5):.1f}" height="{BAR}" '
                    f'fill="{colour}"><title>{escape(name)}: {length / 1000:.2f} ms'
                    "</title></rect>"
                )
    for millisecond in range(0, int(end / 1000) + 1, max(1, int(end / 8000))):
        x = LEFT + millisecond * 1000 * scale
        lines.append(
            f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{millisecond} ms</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def pictures() -> dict[pathlib.Path, str]:
    trace = predicted()
    return {PICTURE: svg(trace), OF_BLOCK: svg(trace, BLOCK)}

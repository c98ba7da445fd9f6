"""A trace as the page's script draws it: a table of commands, and bars that name them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Optional

Json = dict[str, Any]

# Bars that one page draws; each takes about 20 bytes of it.
MOST_BARS = 100_000
MOST_RANKS = 4
# Parts of a step that are drawn apart where there are more bars.
FINEST = 8_000
# Times of a memory counter; a screen has fewer pixels.
MOST_POINTS = 4_000


@dataclass
class Bars:
    """What one process did in one step. Times are ns from the step's beginning on the first rank
    to begin it, of those that are drawn.

    Attributes:
        lanes: by track: its name, and its bars (begin, duration, number in the table).
        memory: by counter: the names of its kinds, and (time, bytes of each) as they change.
        exposed_ns: time that the compute stream was kept.
        merged: neighbours that together take no longer than this are one bar; 0: none are.
    """

    name: str
    step: int
    length: int
    lanes: list[tuple[str, list[tuple[int, int, int]]]] = field(default_factory=list)
    memory: dict[str, Json] = field(default_factory=dict)
    exposed_ns: int = 0
    merged: int = 0


@dataclass
class Timeline:
    """The prediction first, then ranks. `left_out` names processes that are not in it."""

    commands: list[Json]
    processes: list[Bars]
    left_out: list[str]


def drawn(whole: Timeline, most_bars: int) -> Timeline:
    """What a page has room for: `most_bars` at most, of which each process has its share. Of more,
    short ones are one together with their neighbours."""
    share = most_bars // max(1, len(whole.processes))
    fits = sum(_count_bars(process) for process in whole.processes) <= most_bars
    commands: list[Json] = []
    numbers: dict[int, int] = {}  # of commands: in `whole`, and here
    kept: list[Bars] = []
    for process in whole.processes:
        memory = {
            name: {**counter, "points": _peaks(counter["points"], MOST_POINTS)}
            for name, counter in process.memory.items()
        }
        spans = [
            (name, [Span(begin, ns, row, longest=ns) for begin, ns, row in bars])
            for name, bars in process.lanes
        ]
        merged = 0
        if not fits:
            merged, spans = _fitting(spans, process.length, share)
        lanes: list[tuple[str, list[tuple[int, int, int]]]] = []
        for name, of_lane in spans:
            bars = []
            for span in of_lane:
                if span.count > 1:
                    row = len(commands)
                    commands.append(_together(span, whole.commands))
                elif (row := numbers.setdefault(span.row, len(commands))) == len(commands):
                    commands.append(whole.commands[span.row])
                bars.append((span.begin, span.length, row))
            lanes.append((name, bars))
        kept.append(replace(process, lanes=lanes, memory=memory, merged=merged))
    return Timeline(commands, kept, whole.left_out)


@dataclass
class Span:
    """A bar, or neighbours of a track that are drawn as one; `row` is the longest one's."""

    begin: int
    length: int
    row: int
    count: int = 1
    longest: int = 0


def _count_bars(process: Bars) -> int:
    return sum(len(bars) for _, bars in process.lanes)


def _fitting(
    lanes: list[tuple[str, list[Span]]], length: int, most: int
) -> tuple[int, list[tuple[str, list[Span]]]]:
    """The shortest time below which neighbours are one for `most` bars to be left, and these. It
    begins at what a wide screen shows as half a pixel."""
    shortest = 0
    while sum(len(spans) for _, spans in lanes) > most and shortest <= length:
        shortest = 2 * shortest or max(1, length // FINEST)
        lanes = [(name, _merged(spans, shortest)) for name, spans in lanes]
    return shortest, lanes


def _merged(spans: list[Span], shortest: int) -> list[Span]:
    """Neighbours that together take no longer than this are one."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda span: span.begin):
        last = found[-1] if found else None
        if last and (length := span.begin + span.length - last.begin) <= shortest:
            longest = max(last, span, key=lambda one: one.longest)
            found[-1] = Span(
                last.begin,
                max(last.length, length),
                longest.row,
                last.count + span.count,
                longest.longest,
            )
        else:
            found.append(span)
    return found


def _together(span: Span, commands: list[Json]) -> Json:
    longest = commands[span.row]
    return {
        "name": f"{span.count:,} bars, the longest {longest['name']}",
        "kind": longest["kind"],
    }


def _peaks(points: list[Any], most: int) -> list[Any]:
    """At most `most` points: of each group of neighbours, the one with the most bytes."""
    of = -(-len(points) // most)
    return [
        max(points[i : i + of], key=lambda point: sum(point[1])) for i in range(0, len(points), of)
    ]


def timeline(trace: Json) -> Timeline:
    """The picture of one step: of those that were traced, the one of median length on rank 0."""
    names: dict[int, str] = {}
    ranks: list[int] = []  # processes that were measured
    tracks: dict[tuple[int, int], str] = {}
    events: dict[int, list[Json]] = {}
    for event in trace["traceEvents"]:
        pid = event["pid"]
        if event["ph"] == "M":
            if event["name"] == "process_name":
                names[pid] = event["args"]["name"]
                if "rank" in event["args"]:
                    ranks.append(pid)
            elif event["name"] == "thread_name":
                tracks[pid, event["tid"]] = event["args"]["name"]
        elif event["ph"] in "XC":
            events.setdefault(pid, []).append(event)
    table = _Table()
    predicted = [pid for pid in names if pid not in ranks]
    step = _median_step(events[ranks[0]]) if ranks else None
    zero = min((_span(events[rank], step)[0] for rank in ranks[:MOST_RANKS]), default=0)
    found, left_out = [], []
    for pid in predicted + ranks:
        is_rank = pid in ranks
        whole = _span(events[pid], step if is_rank else None)
        part = _bars(
            pid, names[pid], events[pid], tracks, whole, zero if is_rank else whole[0], table
        )
        if is_rank and len(found) > MOST_RANKS:
            left_out.append(names[pid])
            continue
        part.step = step if is_rank and step is not None else 0
        found.append(part)
    return Timeline(table.rows, found, left_out)


def nanoseconds(microseconds: float) -> int:
    return round(microseconds * 1000)


def _steps(events: list[Json]) -> dict[int, tuple[int, int]]:
    """The begin of each step's first run, and the end of its last one."""
    found: dict[int, tuple[int, int]] = {}
    for event in events:
        if event["ph"] == "X" and event["cat"] == "step":
            begin = nanoseconds(event["ts"])
            end = begin + nanoseconds(event["dur"])
            old = found.get(event["args"]["step"], (begin, end))
            found[event["args"]["step"]] = min(old[0], begin), max(old[1], end)
    return found


def _median_step(events: list[Json]) -> int:
    steps = sorted(_steps(events).items(), key=lambda item: item[1][1] - item[1][0])
    return steps[(len(steps) - 1) // 2][0]


def _span(events: list[Json], step: Optional[int]) -> tuple[int, int]:
    steps = _steps(events)
    return steps[step] if step is not None else next(iter(steps.values()))


class _Table:
    """What is to be said of bars, each text once: bars of one command share a row."""

    def __init__(self) -> None:
        self.rows: list[Json] = []
        self._numbers: dict[Any, int] = {}

    def row(self, event: Json, program: str) -> int:
        args = event["args"]
        key = program, event["cat"], args.get("command", event["name"])
        if key not in self._numbers:
            self._numbers[key] = len(self.rows)
            row = {"name": event["name"], "kind": event["cat"]}
            for name in ("command", "module", "source", "unit", "region", "gives", "bytes", "for"):
                if name in args:
                    row[name] = args[name]
            if "bytes_sent_per_rank" in args:
                row["moved"] = args["bytes_sent_per_rank"]
            elif "bytes" in args:
                row["moved"] = args["bytes"]
            for name in ("flops", "predicted_us"):
                if name in args:
                    row[name] = args[name]
            self.rows.append(row)
        return self._numbers[key]


def _bars(
    pid: int,
    name: str,
    events: list[Json],
    tracks: dict[tuple[int, int], str],
    span: tuple[int, int],
    zero: int,
    table: _Table,
) -> Bars:
    begin, end = span
    bars = Bars(name, 0, end - begin)
    lanes: dict[int, list[tuple[int, int, int]]] = {}
    runs = [e for e in events if e["ph"] == "X" and e["cat"] == "step"]
    for event in events:
        now = nanoseconds(event["ts"])
        if not begin <= now <= end or (now == end and event["ph"] == "X"):
            continue
        if event["ph"] == "C":
            _count(
                bars.memory.setdefault(event["name"], {"kinds": [], "points": []}),
                event,
                now - zero,
            )
        elif event["cat"] != "step":
            length = nanoseconds(event["dur"])
            if event["cat"] == "exposed":
                bars.exposed_ns += length
            program = _program(runs, now)
            lanes.setdefault(event["tid"], []).append(
                (now - zero, length, table.row(event, program))
            )
    bars.lanes = [(tracks[pid, tid], lanes[tid]) for tid in sorted(lanes)]
    return bars


def _program(runs: list[Json], now: int) -> str:
    """The program that runs at a moment: commands are numbered in each."""
    for run in runs:
        if nanoseconds(run["ts"]) <= now <= nanoseconds(run["ts"]) + nanoseconds(run["dur"]):
            return run["args"]["program"]
    return ""


def _count(counter: Json, event: Json, when: int) -> None:
    kinds: list[str] = counter["kinds"]
    for kind in event["args"]:
        if kind not in kinds:
            kinds.append(kind)
    counter["points"].append((when, [event["args"].get(kind, 0) for kind in kinds]))

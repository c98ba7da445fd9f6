"""Reads a trace file and checks it against the rules of its format.

The format is Google's "Trace Event Format" in JSON. Perfetto reads it with a program that its
Python package downloads when it runs, so its rules are checked here instead.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
from typing import Any, Iterator

Event = dict[str, Any]


def nanoseconds(microseconds: float) -> int:
    """Times have three decimals: compared as whole numbers they are exact."""
    return round(microseconds * 1000)


@dataclasses.dataclass(frozen=True)
class Slice:
    name: str
    category: str
    begin: int  # ns
    end: int
    args: dict[str, Any]


class Trace:
    """A trace file that keeps the rules; raises AssertionError for one that breaks them."""

    def __init__(self, text: str) -> None:
        whole = json.loads(text)
        self.facts: dict[str, Any] = whole["otherData"]
        self.events: list[Event] = whole["traceEvents"]
        self.processes: dict[int, str] = {}
        self.tracks: dict[tuple[int, int], str] = {}
        self.slices: dict[tuple[int, int], list[Slice]] = collections.defaultdict(list)
        self._read()
        for slices in self.slices.values():
            check_nesting(slices)
        self._check_arrows()

    @classmethod
    def load(cls, path: pathlib.Path) -> Trace:
        return cls(path.read_text(encoding="utf-8"))

    def _read(self) -> None:
        before = 0
        for event in self.events:
            where = event["pid"], event["tid"]
            if event["ph"] == "M":
                if event["name"] == "process_name":
                    self.processes[event["pid"]] = event["args"]["name"]
                elif event["name"] == "thread_name":
                    self.tracks[where] = event["args"]["name"]
                continue
            now = nanoseconds(event["ts"])
            assert now >= before, f"{event} is behind one of {before} ns"
            before = now
            assert event["pid"] in self.processes, event
            if event["ph"] == "X":
                assert where in self.tracks, f"{event} is on a track without a name"
                assert event["dur"] >= 0
                self.slices[where].append(
                    Slice(
                        event["name"],
                        event["cat"],
                        now,
                        now + nanoseconds(event["dur"]),
                        event["args"],
                    )
                )
            elif event["ph"] == "C":
                assert all(isinstance(v, int) and v >= 0 for v in event["args"].values()), event
            else:
                assert event["ph"] in "sf", event

    def _check_arrows(self) -> None:
        starts: dict[int, Event] = {}
        ended = set()
        for event in self.events:
            if event["ph"] not in "sf":
                continue
            now, where = nanoseconds(event["ts"]), (event["pid"], event["tid"])
            assert any(
                s.begin <= now < s.end for s in self.slices[where]
            ), f"{event} is in no slice of its track"
            if event["ph"] == "s":
                assert event["id"] not in starts, f"{event} begins twice"
                starts[event["id"]] = event
            else:
                assert event["bp"] == "e"
                assert event["id"] in starts, f"{event} ends before it begins"
                ended.add(event["id"])
        assert set(starts) == ended, "arrows that lead nowhere"

    def process(self, name: str) -> int:
        """The number of the only process whose name begins so."""
        (number,) = [n for n, text in self.processes.items() if text.startswith(name)]
        return number

    def track(self, process: int, name: str) -> list[Slice]:
        (where,) = [key for key, text in self.tracks.items() if key[0] == process and text == name]
        return self.slices[where]

    def stream(self, process: int, name: str) -> list[Slice]:
        """What is on a stream's tracks: those under way together have "gather 2" and so on."""
        return sorted(
            (s for stream, s in self.commands(process) if stream == name), key=lambda s: s.begin
        )

    def commands(self, process: int) -> Iterator[tuple[str, Slice]]:
        """What ran, with the name of its stream."""
        for where, name in self.tracks.items():
            if where[0] == process and name != "steps":
                for found in self.slices[where]:
                    if found.category != "exposed":
                        yield name.split()[0], found

    def exposed_ms(self, process: int, step: Slice) -> float:
        """Time of a step in which communication kept the compute stream."""
        return sum(
            (s.end - s.begin) / 1e6
            for s in self.track(process, "compute")
            if s.category == "exposed" and step.begin <= s.begin < step.end
        )

    def peak_bytes(self, process: int, counter: str = "memory") -> int:
        return max(
            sum(event["args"].values())
            for event in self.events
            if event["ph"] == "C" and event["pid"] == process and event["name"] == counter
        )

    def arrows(self, process: int) -> list[tuple[Slice, Slice]]:
        """The innermost slices at the ends of each arrow."""
        ends: dict[int, list[Slice]] = collections.defaultdict(list)
        for event in self.events:
            if event["ph"] in "sf" and event["pid"] == process:
                now = nanoseconds(event["ts"])
                around = [s for s in self.slices[(process, event["tid"])] if s.begin <= now < s.end]
                ends[event["id"]].append(min(around, key=lambda s: s.end - s.begin))
        return [(left, right) for left, right in ends.values()]


def check_nesting(slices: list[Slice]) -> None:
    """Slices of a track, in the order of their beginnings, lie apart or within each other."""
    around: list[Slice] = []
    for found in slices:
        while around and around[-1].end <= found.begin:
            around.pop()
        assert not around or found.end <= around[-1].end, f"{found} overlaps {around[-1]}"
        if found.end > found.begin:
            around.append(found)

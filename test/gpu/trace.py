"""What a GPU does, kernel by kernel, and how long it does nothing."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
from typing import Any, ContextManager, Sequence
from unittest import mock

# Of a trace's entries, in the order of their begins: steps that are like each other. Before are
# the start and the first steps, behind the end.
FIRST, LAST = 0.5, 0.95


@dataclasses.dataclass(frozen=True, order=True)
class Entry:
    """A kernel, copy or fill: when it began and ended, in nanoseconds."""

    begin: int
    end: int
    name: str


def traced(library: pathlib.Path, trace: pathlib.Path) -> ContextManager[Any]:
    """Processes that are started inside the block, and use CUDA, write `trace` when they end: see
    GpuTrace.cpp."""
    settings = {"CUDA_INJECTION64_PATH": str(library), "FSDP_GPU_TRACE": str(trace)}
    return mock.patch.dict(os.environ, settings)


def read(trace: pathlib.Path) -> list[Entry]:
    """The steps in the middle of a trace.

    Raises:
        ValueError: nothing is in the trace.
    """
    lines = (line.split(" ", 2) for line in trace.read_text().splitlines())
    entries = sorted(Entry(int(begin), int(end), name) for begin, end, name in lines)
    middle = entries[int(FIRST * len(entries)) : int(LAST * len(entries))]
    if not middle:
        raise ValueError("the trace is empty")
    return middle


def idle_share(entries: Sequence[Entry]) -> float:
    """The part of the time, from 0 to 1, in which no kernel, copy or fill ran."""
    begin = reached = entries[0].begin
    idle = 0
    for entry in entries:
        idle += max(0, entry.begin - reached)
        reached = max(reached, entry.end)
    return idle / (reached - begin)


def kernels(entries: Sequence[Entry]) -> dict[str, float]:
    """The part of the time in which something ran that each took, by name, the largest first."""
    times: collections.Counter[str] = collections.Counter()
    for entry in entries:
        times[entry.name] += entry.end - entry.begin
    whole = sum(times.values())
    return {name: time / whole for name, time in times.most_common()}

"""How long a GPU does nothing between a process's kernels."""

from __future__ import annotations

import array
import os
import pathlib
from typing import Any, ContextManager
from unittest import mock

# Of a trace's entries, in the order of their begins: steps that are like each other. Before are
# the start and the first steps, behind the end.
FIRST, LAST = 0.5, 0.95


def traced(library: pathlib.Path, trace: pathlib.Path) -> ContextManager[Any]:
    """Processes that are started inside the block, and use CUDA, write `trace` when they end: see
    GpuTrace.cpp."""
    settings = {"CUDA_INJECTION64_PATH": str(library), "FSDP_GPU_TRACE": str(trace)}
    return mock.patch.dict(os.environ, settings)


def share(trace: pathlib.Path) -> float:
    """The part of the time, from 0 to 1, in which no kernel, copy or fill ran, over the steps in
    the middle of the trace.

    Raises:
        ValueError: nothing is in the trace.
    """
    times = array.array("Q", trace.read_bytes())
    entries = sorted(zip(times[::2], times[1::2]))
    middle = entries[int(FIRST * len(entries)) : int(LAST * len(entries))]
    if not middle:
        raise ValueError("the trace is empty")
    begin = reached = middle[0][0]
    idle = 0
    for start, end in middle:
        idle += max(0, start - reached)
        reached = max(reached, end)
    return idle / (reached - begin)

"""Tests that a rank starts in the memory that the plan gives it: its part of the states and what a
step needs, but never the whole model."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from typing import Callable

import pytest

from support import chain

STEP = pathlib.Path(__file__).with_name("meta_step.py")
MIB = 1 << 20
RANKS = 4
# Each of 16 layers is a unit of 4 MiB.
LAYERS, UNIT = 16, 4 * MIB
SIZES = {"tiny": ("--width", "8"), "large": ("--width", "1024", "--layers", str(LAYERS + 1))}
# How a run starts: the step file's flags, those of fsdp-run, and the bytes that the start may take
# beside the plan's. Rank 0 sends what it reads in pieces.
STARTS = {
    "recipes": ((), (), 4 * MIB),
    "weights": (("--real",), (), 4 * MIB),
    "rank 0": (("--real",), ("--weights-from-rank0",), 24 * MIB),
}


Plans = Callable[[str, tuple[str, ...], str], chain.Compiled]


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Plans:
    """Compiles a size, with flags of the step file, in a layout."""

    @functools.cache
    def archive(size: str, flags: tuple[str, ...]) -> pathlib.Path:
        path = tmp_path_factory.mktemp("archive") / "step.pt"
        chain.export(STEP, path, [*SIZES[size], *flags])
        return path

    @functools.cache
    def lowered(size: str, flags: tuple[str, ...], layout: str) -> chain.Compiled:
        units = "schedule=fsdp2 reshard-after-forward=true units=class:Linear bucket-cap-mib=none"
        options = f"mesh={RANKS} shard-layout={layout} {units}"
        folder = tmp_path_factory.mktemp("plan")
        return chain.lower(STEP, archive(size, flags), folder, pipeline=options)

    return lowered


@pytest.mark.parametrize("layout", ("dim0", "flat"))
@pytest.mark.parametrize("start", STARTS)
def test_a_rank_starts_with_its_part(start: str, layout: str, plans: Plans) -> None:
    flags, extra, more = STARTS[start]
    summaries = []
    for size in SIZES:
        compiled = plans(size, flags, layout)
        if start == "recipes":
            compiled = dataclasses.replace(compiled, weights=None)
        run = chain.run_plan(compiled, RANKS, threads=False, poison=False, extra=extra)
        summaries.append(run.summary)
    idle, large = summaries
    planned = large["memory_bytes"] - large["arenas"]["window"]
    assert len(large["start_peak_bytes"]) == RANKS
    assert max(large["start_peak_bytes"]) <= max(idle["start_peak_bytes"]) + planned + more
    # A rank's part of parameters and gradients, and some whole units that a step needs.
    assert planned <= 2 * LAYERS * UNIT // RANKS + 5 * UNIT + MIB

"""Tests that parameters alone, or optimizer state alone, may be on the host: nothing but where
they are changes."""

from __future__ import annotations

import dataclasses
import pathlib
import re

import pytest
import torch

from support import chain, compare, training
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training

FILE = pathlib.Path(__file__).parent / "models" / "blocks.py"
UNITS = ("blocks.0", "blocks.1", "blocks.2", "")
PLAIN = Training(FILE, (), tuple(Call((unit,)) for unit in UNITS), steps=4)
BF16 = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
PARTS = ("params", "optimizer")


def lower_all(
    described: Training, folder: pathlib.Path, pipeline: str, offloads: tuple[str, ...]
) -> list[chain.Compiled]:
    """The same archive with each way to offload."""
    first = chain.compile_step(training.annotated(described), folder, described.argv, pipeline)
    return [
        chain.lower(
            first.step_file, first.archive, folder / offload, (), f"{pipeline} offload={offload}"
        )
        for offload in offloads
    ]


@pytest.mark.parametrize("offload", PARTS)
def test_trains_as_fsdp2_does(offload: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    expected = fsdp2.start(PLAIN)
    compare.check_bits(training.run(PLAIN, tmp_path, f"offload={offload}"), expected())


# The mesh, the step file's flags, arguments of fully_shard, the pipeline.
CASES = {
    "one rank": ((1,), (), {}, "shard-layout=dim0"),
    "one rank, clipped": ((1,), ("--clip-norm", "0.5"), {}, "shard-layout=flat"),
    "naive": ((2,), (), {}, "shard-layout=flat schedule=naive"),
    "one stream": ((3,), (), {}, "shard-layout=dim0 streams=1"),
    "mapped": ((4,), (), {}, "shard-layout=flat gather=map"),
    "fsdp2's order": ((3,), (), {}, "shard-layout=flat gather=copy schedule=fsdp2"),
    "clipped": ((3,), ("--clip-norm", "0.5"), {}, "shard-layout=dim0"),
    "clipped, flat": ((2,), ("--clip-norm", "0.5"), {}, "shard-layout=flat"),
    "by value": ((2,), ("--clip-value", "0.02"), {}, "shard-layout=flat"),
    "frozen": ((2,), ("--frozen",), {}, "shard-layout=flat"),
    "accumulated": ((2,), ("--accumulate", "3"), {}, "shard-layout=dim0"),
    "accumulated, each": (
        (2,),
        ("--accumulate", "2"),
        {},
        "shard-layout=flat accumulate-reduce=each",
    ),
    "bf16": ((2,), (), {"precision": BF16}, "shard-layout=dim0"),
    "bf16, flat, replicated": ((2, 2), (), {"precision": BF16}, "shard-layout=flat"),
    "replicated": ((2, 2), ("--clip-norm", "0.5"), {}, "shard-layout=dim0 schedule=fsdp2"),
    "replicas alone": ((2, 1), (), {}, "shard-layout=flat"),
    "scaled": ((2,), ("--scale", "1e38"), {}, "shard-layout=flat"),
    "recomputed": ((2,), (), {}, "shard-layout=flat remat=full memory-budget-mib=1"),
}


# The others with --long.
SHORT = ("one rank, clipped", "mapped", "clipped", "frozen", "accumulated, each", "scaled")


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=() if c in SHORT else pytest.mark.long) for c in CASES]
)
def test_what_is_offloaded_changes_no_bit(case: str, tmp_path: pathlib.Path) -> None:
    mesh, argv, call, pipeline = CASES[case]
    calls = tuple(Call((unit,), **call) for unit in UNITS)
    described = dataclasses.replace(PLAIN, mesh=mesh, argv=argv, calls=calls)
    device, *parts = lower_all(described, tmp_path, pipeline, ("none", *PARTS, "all"))
    expected = chain.run_plan(device, described.world, steps=3)
    for streams, host in zip(("inline", "threads", "threads"), parts):
        run = chain.run_plan(
            host, described.world, steps=3, extra=["--host-streams", streams, "--poison"]
        )
        assert run.losses == expected.losses
        assert all(torch.equal(run.weights[name], w) for name, w in expected.weights.items())


def test_a_units_policy_wins(tmp_path: pathlib.Path) -> None:
    """What the unit's own policy offloads is all of it, whatever the option says."""
    calls = tuple(Call((unit,), offload=unit == "blocks.1") for unit in UNITS)
    described = dataclasses.replace(PLAIN, calls=calls)
    (compiled,) = lower_all(described, tmp_path, "shard-layout=flat", ("optimizer",))
    states = compiled.scheduled.read_text()
    for unit in UNITS:
        line = next(l for l in states.splitlines() if f'@"{unit}/flat.0" parameter' in l)
        assert ("on_host" in line) == (unit == "blocks.1")


def state_bytes(compiled: chain.Compiled, role: str = "[a-z]+") -> tuple[int, int]:
    """Of the device's arena and of the host's; of one role or of all."""
    found = [0, 0, 0]
    for line in compiled.scheduled.read_text().splitlines():
        place = re.search(
            rf"fsdp\.state @.* {role} : .*fsdp\.place = #fsdp\.place<(\d), \d+, (\d+)>", line
        )
        if place and not re.search(r"\bflat = @", line):
            found[int(place[1])] += int(place[2])
    return found[0], found[2]


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_states_that_leave_the_device(layout: str, tmp_path: pathlib.Path) -> None:
    # What is on the host cannot be read in place, so nothing is.
    pipeline = f"shard-layout={layout} gather=copy"
    none, *others = lower_all(PLAIN, tmp_path, pipeline, ("none", *PARTS, "all"))
    parameters, _ = state_bytes(none, "parameter")
    optimizer, _ = state_bytes(none, "optimizer")
    everything, nothing = state_bytes(none)
    assert nothing == 0
    live = chain.run_plan(none, 2, steps=1).summary["live_bytes"]
    for compiled, moved in zip(others, (parameters, optimizer, parameters + optimizer)):
        assert state_bytes(compiled) == (everything - moved, moved)
        summary = chain.run_plan(compiled, 2, steps=1).summary
        # The host has the gradients that are used there, and what is staged.
        assert moved <= summary["host_live_bytes"] <= moved + 2.1 * parameters + 4096
        # The device has copies of parts for a short while.
        assert summary["live_bytes"] <= live - moved + parameters + 4096


def test_bytes_of_a_step(tmp_path: pathlib.Path) -> None:
    """Exactly what each way must move, where every parameter is gathered once."""
    pipeline = "shard-layout=flat reshard-after-forward=false"
    for compiled, copies in zip(
        lower_all(PLAIN, tmp_path, pipeline, ("none", *PARTS, "all")),
        (
            0,
            3,  # parameters for forward and for the update, and back
            3,  # gradients and parameters down, parameters up
            2,  # parameters for forward, gradients down
        ),
    ):
        summary = chain.run_plan(compiled, 2, steps=2).summary
        one = summary["rank_bytes"]["parameters"]
        assert one == summary["rank_bytes"]["gradients"]
        assert summary["offload_bytes"] == 2 * copies * one
        assert summary["communication_copied_bytes"] == 0

"""Tests that units which live on the host train as FSDP2's do, and as those on the device."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
import torch

from support import chain, compare, training
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training

FILE = pathlib.Path(__file__).parent / "models" / "blocks.py"
UNITS = ("blocks.0", "blocks.1", "blocks.2", "")
DEVICE = Training(FILE, (), tuple(Call((unit,)) for unit in UNITS), steps=4)


def offloaded(described: Training, units: tuple[str, ...] = UNITS) -> Training:
    calls = tuple(
        dataclasses.replace(call, offload=call.paths[0] in units) for call in described.calls
    )
    return dataclasses.replace(described, calls=calls)


def summary(described: Training, folder: pathlib.Path, pipeline: str = "") -> dict:
    folder.mkdir()
    return training.run(described, folder, pipeline).summary


@pytest.mark.parametrize("units", (UNITS, ("blocks.1",)), ids=("all", "one"))
def test_offloaded_units_are_fsdp2s(
    units: tuple[str, ...], tmp_path: pathlib.Path, fsdp2: Pool
) -> None:
    described = offloaded(DEVICE, units)
    expected = fsdp2.start(described)
    compare.check_bits(training.run(described, tmp_path), expected())


@pytest.mark.parametrize(
    "ranks, options",
    [
        (1, "shard-layout=dim0 schedule=overlap"),
        (1, "shard-layout=flat schedule=naive"),
        (2, "shard-layout=dim0 schedule=naive"),
        (2, "shard-layout=flat schedule=fsdp2 reshard-after-forward=false"),
        (3, "shard-layout=flat schedule=overlap"),
        (3, "shard-layout=dim0 schedule=fsdp2"),
        (4, "shard-layout=dim0 schedule=overlap streams=1"),
        (4, "shard-layout=flat schedule=overlap gather=copy"),
    ],
)
def test_no_bit_changes(ranks: int, options: str, tmp_path: pathlib.Path) -> None:
    step = training.annotated(dataclasses.replace(DEVICE, mesh=(ranks,)))
    device = chain.compile_step(step, tmp_path, (), options)
    host = chain.lower(
        device.step_file, device.archive, tmp_path / "host", (), f"{options} offload=all"
    )
    expected = chain.run_plan(device, ranks, steps=3)
    for streams in ("inline", "threads"):
        run = chain.run_plan(host, ranks, steps=3, extra=["--host-streams", streams])
        assert run.losses == expected.losses
        assert all(torch.equal(run.weights[name], w) for name, w in expected.weights.items())


def test_states_leave_the_device(tmp_path: pathlib.Path) -> None:
    """What a rank keeps between steps moves to the host; what it gathers does not."""
    device = summary(DEVICE, tmp_path / "device")
    host = summary(offloaded(DEVICE), tmp_path / "host")
    held = host["rank_bytes"]["parameters"] + host["rank_bytes"]["optimizer"]
    assert device["arenas"]["host"] == device["host_live_bytes"] == 0
    assert host["arenas"]["host"] >= host["host_live_bytes"] >= held
    assert host["live_bytes"] < device["live_bytes"] - held / 2


def test_what_neighbours_keep_is_not_fetched_again(tmp_path: pathlib.Path) -> None:
    """It is on the device: a step copies every shard in once, as where nothing reshards."""
    fetched, losses = {}, {}
    for reshard in (True, 2, False):
        calls = tuple(dataclasses.replace(call, reshard=reshard) for call in DEVICE.calls)
        described = offloaded(dataclasses.replace(DEVICE, calls=calls, mesh=(4,)))
        run = training.run(described, tmp_path / str(reshard), "bucket-cap-mib=none")
        fetched[reshard], losses[reshard] = run.summary["offload_bytes"], run.losses
    assert fetched[2] == fetched[False] < fetched[True]
    assert losses[2] == losses[False] == losses[True]


def test_copies_of_offload_are_no_copies_of_communication(tmp_path: pathlib.Path) -> None:
    """A step copies every shard in for forward, again for backward but the root's, and every
    gradient out: none of it is a copy for communication."""
    run = training.run(offloaded(DEVICE), tmp_path, "shard-layout=flat")
    parameters = run.summary["rank_bytes"]["parameters"]
    gradients = run.summary["rank_bytes"]["gradients"]
    assert run.summary["communication_copied_bytes"] == 0
    per_step = run.summary["offload_bytes"] / DEVICE.steps
    assert parameters + gradients < per_step <= 2 * parameters + gradients

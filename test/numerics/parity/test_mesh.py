"""Tests that meshes with replicas train as FSDP2 trains on them: the same bits where sums are those
of two, the same collectives; and that results do not depend on how ranks are arranged."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
import torch

from support import chain, compare, training
from support.fsdp2 import Pool
from support.training import Training

GPT = pathlib.Path(__file__).parent / "models" / "gpt.py"
ODD = ("--width", "21", "--heads", "3", "--vocab", "61", "--length", "15")
BLOCKS = training.units(("blocks.0", "blocks.1"))
# Replicas times shards.
MESHES = {"hsdp": (2, 2), "replicas": (2, 1), "shards": (1, 2)}


def trained_on(mesh: tuple[int, ...]) -> Training:
    return Training(GPT, ODD, BLOCKS, mesh)


def counts(run: chain.Result) -> dict[tuple[str, str], int]:
    found = {}
    for row in run.summary["collectives"]:
        region = row["region"] if row["kind"] == "all-gather" else "backward"
        found[row["kind"], region] = row["calls_per_step"]
    return found


@pytest.mark.parametrize("name", MESHES)
def test_a_mesh_is_fsdp2s(name: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    task = trained_on(MESHES[name])
    begun = fsdp2.start(task)
    run = training.run(task, tmp_path)
    trained = begun()
    compare.check_bits(run, trained)
    replicas, shards = task.mesh
    units = len(task.calls)
    expected = {}
    if shards > 1:
        expected["all-gather", "forward"] = units
        expected["all-gather", "backward"] = units - 1
        expected["reduce-scatter", "backward"] = units
    if replicas > 1:
        expected["all-reduce", "backward"] = units
    assert counts(run) == expected
    # FSDP2 gathers and reduces over one rank too.
    assert all(trained.collectives[key] == number for key, number in expected.items())


@pytest.mark.parametrize("comm", ("shm", "gloo"))
@pytest.mark.parametrize("mesh", ("2x2", "4x1"))
@pytest.mark.parametrize(
    "options",
    (
        "",
        "schedule=fsdp2",
        "schedule=naive",
        "streams=1",
        "shard-layout=flat",
        "shard-layout=flat gather=copy",
    ),
)
def test_no_layout_changes_a_bit(
    mesh: str,
    options: str,
    comm: str,
    archive: pathlib.Path,
    losses: dict[str, list[float]],
    tmp_path: pathlib.Path,
) -> None:
    if comm == "gloo" and "schedule" in options:
        pytest.skip("what is launched does not depend on the transport")
    compiled = chain.lower(GPT, archive, tmp_path, ODD, f"mesh={mesh} {options}")
    run = chain.run_plan(compiled, 4, steps=4, extra=["--comm", comm])
    assert losses.setdefault(mesh, run.losses) == run.losses


def test_streams_as_threads(
    archive: pathlib.Path, losses: dict[str, list[float]], tmp_path: pathlib.Path
) -> None:
    compiled = chain.lower(GPT, archive, tmp_path, ODD, "mesh=2x2")
    run = chain.run_plan(compiled, 4, steps=4, threads=False, extra=["--host-streams=threads"])
    assert losses.setdefault("2x2", run.losses) == run.losses


def test_meshes_of_the_same_ranks_have_the_same_losses(
    archive: pathlib.Path, losses: dict[str, list[float]], tmp_path: pathlib.Path
) -> None:
    """Ranks, and so batches, are the same; sums are in another order."""
    for mesh in ("2x2", "4x1", "4"):
        if mesh not in losses:
            compiled = chain.lower(GPT, archive, tmp_path / mesh, ODD, f"mesh={mesh}")
            losses[mesh] = chain.run_plan(compiled, 4, steps=4).losses
    # The sums of both are in rank order over all four.
    assert losses["4x1"] == losses["4"]
    assert losses["2x2"] == pytest.approx(losses["4"], rel=1e-5)


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_axes_of_replicas_are_their_product(
    layout: str, archive: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """One sum over all of them, in the order of ranks: the same collectives and the same bits."""
    runs = {}
    for mesh in ("4x2", "2x2x2", "2x1x2x2"):
        options = f"mesh={mesh} shard-layout={layout}"
        compiled = chain.lower(GPT, archive, tmp_path / mesh, ODD, options)
        runs[mesh] = chain.run_plan(compiled, 8, steps=3)
    one = runs.pop("4x2")
    for run in runs.values():
        assert run.losses == one.losses
        assert all(torch.equal(run.weights[name], w) for name, w in one.weights.items())
        assert counts(run) == counts(one)


def test_a_models_mesh_has_any_number_of_axes(tmp_path: pathlib.Path) -> None:
    """As `fully_shard` is given it, with the names of its dimensions."""
    task = dataclasses.replace(trained_on((2, 2, 2)), steps=3)
    compiled = chain.compile_step(training.annotated(task), tmp_path, task.argv, "")
    run = chain.run_plan(compiled, 8, steps=3)
    product = training.run(dataclasses.replace(task, mesh=(4, 2)), tmp_path / "product")
    assert run.losses == product.losses
    plan = str(compiled.plan)
    text = chain.plan_text(plan)
    assert "mesh replicate0=2 replicate1=2 shard=2: rank 0 at (0, 0, 0), rank 1 at" in text
    assert " over replicate0 x replicate1, " in text


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("mesh") / "step.pt"
    chain.export(GPT, path, ODD)
    return path


@pytest.fixture(scope="module")
def losses() -> dict[str, list[float]]:
    """Of the first run on each mesh, which the others are compared with."""
    return {}


@pytest.mark.parametrize(
    "options", ("", "shard-layout=flat gather=copy", "schedule=fsdp2 remat=full")
)
def test_a_smaller_shard_is_kept(options: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    """Of four shards two neighbours gather in backward what they kept in forward."""
    calls = tuple(dataclasses.replace(call, reshard=2) for call in BLOCKS)
    task = Training(GPT, ODD, calls, (4,))
    begun = fsdp2.start(task)
    run = training.run(task, tmp_path, options)
    trained = begun()
    compare.check_close(run, trained)
    assert counts(run) == trained.collectives
    assert trained.gathering == {"forward": {4}, "backward": {2}}
    # A rank sends half of what it gathers, not a quarter.
    assert sent(run)["backward"] == 2 * sent(run)["forward"]
    whole = tuple(dataclasses.replace(call, reshard=True) for call in BLOCKS)
    again = dataclasses.replace(task, calls=whole)
    plain = training.run(again, tmp_path / "plain", options)
    assert run.losses == plain.losses
    assert all(torch.equal(run.weights[name], w) for name, w in plain.weights.items())


def sent(run: chain.Result) -> dict[str, int]:
    """Bytes that a rank contributes to the gathers of a step, by region."""
    gathers = [row for row in run.summary["collectives"] if row["kind"] == "all-gather"]
    return {row["region"]: row["bytes_per_step"] for row in gathers}


@pytest.mark.parametrize("mesh, ranks", (("4", 4), ("2x4", 8)))
def test_no_number_of_neighbours_changes_a_bit(
    mesh: str, ranks: int, archive: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """1 is false, and that of all shards is true."""
    losses = {}
    for reshard in ("false", "1", "2", "4", "true"):
        options = f"mesh={mesh} reshard-after-forward={reshard}"
        compiled = chain.lower(GPT, archive, tmp_path / reshard, ODD, options)
        run = chain.run_plan(compiled, ranks, steps=3)
        losses[reshard] = run.losses
        gathers = sent(run)
        assert ("backward" in gathers) == (reshard not in ("false", "1"))
        # What two neighbours keep has all members of a bucket; else those are
        # gathered that backward reads.
        if reshard == "2":
            assert gathers["backward"] == 2 * gathers["forward"]
        elif "backward" in gathers:
            assert gathers["backward"] <= gathers["forward"]
    assert len({tuple(values) for values in losses.values()}) == 1


def test_mapped_parameters_are_not_kept(archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """They can be read in forward and backward alike, wherever they lie."""
    runs = {}
    for reshard in ("true", "2"):
        options = f"mesh=4 shard-layout=flat gather=map reshard-after-forward={reshard}"
        compiled = chain.lower(GPT, archive, tmp_path / reshard, ODD, options)
        runs[reshard] = chain.run_plan(compiled, 4, steps=3)
    assert runs["2"].losses == runs["true"].losses
    assert runs["2"].summary["live_bytes"] == runs["true"].summary["live_bytes"]
    assert sent(runs["2"]) == sent(runs["true"])


@pytest.mark.parametrize("mesh", ((2,), (2, 2)))
def test_another_dimension_is_split(
    mesh: tuple[int, ...], tmp_path: pathlib.Path, fsdp2: Pool
) -> None:
    """Each parameter on its largest dimension; of the others, the first."""
    calls = tuple(dataclasses.replace(call, placement="largest") for call in BLOCKS)
    task = Training(GPT, (), calls, mesh)
    begun = fsdp2.start(task)
    run = training.run(task, tmp_path)
    compare.check_bits(run, begun())
    flat = training.run(task, tmp_path / "flat", "shard-layout=flat")
    assert flat.losses == run.losses

"""Tests how a run gets its first values: by recipes, from a rank's part of files, from rank 0."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import time
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from support import chain

STEP = pathlib.Path(__file__).with_name("meta_step.py")
LAYOUTS = ("dim0", "flat")
WORLDS = (1, 2, 3, 4)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("archive") / "step.pt"
    chain.export(STEP, path, [])
    return path


def lower(archive: pathlib.Path, folder: pathlib.Path, pipeline: str) -> chain.Compiled:
    return chain.lower(STEP, archive, folder, (), pipeline)


@pytest.fixture(scope="module")
def start(archive: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> chain.Result:
    """One rank's training at a rate of 0: what it saves is what it started with."""
    compiled = lower(archive, tmp_path_factory.mktemp("start"), "mesh=1")
    return without_weights(compiled, 1)


def without_weights(compiled: chain.Compiled, world: int, **run: Any) -> chain.Result:
    return chain.run_plan(dataclasses.replace(compiled, weights=None), world, **run)


def check_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    # BatchNorm's statistics are of rank 0's batch.
    for name in expected:
        if not name.startswith(("norm.running", "norm.num")):
            assert torch.equal(found[name], expected[name]), name


@pytest.mark.quick
def test_ranks_and_layouts_start_alike(
    archive: pathlib.Path, start: chain.Result, tmp_path: pathlib.Path
) -> None:
    for layout in LAYOUTS:
        for world in WORLDS:
            folder = tmp_path / f"{layout}-{world}"
            compiled = lower(archive, folder, f"mesh={world} shard-layout={layout}")
            run = without_weights(compiled, world, threads=world != 3)
            check_same(run.weights, start.weights)
            assert "start by the model's own recipes, with seed 3" in run.output


def test_values_are_pytorchs_distributions(start: chain.Result) -> None:
    weights = start.weights
    assert not weights["embedding.weight"][2].any()
    assert 0.8 < weights["embedding.weight"][3:].std() < 1.2
    assert 0.015 < weights["position"].std() < 0.025
    bound = 19**-0.5
    assert weights["inner.1.bias"].abs().max() <= bound
    assert weights["inner.1.bias"].abs().max() > 0.7 * bound
    assert torch.equal(weights["norm.weight"], torch.ones(13))
    expected = (2 / 38) ** 0.5
    assert 0.8 * expected < weights["inner.1.weight"].std() < 1.2 * expected
    assert not torch.equal(weights["inner.1.weight"], weights["inner.2.weight"])


def test_the_seed_changes_what_is_drawn(
    archive: pathlib.Path, start: chain.Result, tmp_path: pathlib.Path
) -> None:
    compiled = lower(archive, tmp_path, "mesh=2")
    run = without_weights(compiled, 2, extra=["--seed", "4"])
    assert not torch.equal(run.weights["head.weight"], start.weights["head.weight"])


def test_weights_from_a_file_replace_recipes(
    archive: pathlib.Path, start: chain.Result, tmp_path: pathlib.Path
) -> None:
    compiled = lower(archive, tmp_path, "mesh=2")
    changed = {
        name: tensor + 1 if tensor.is_floating_point() else tensor
        for name, tensor in start.weights.items()
    }
    save_file(changed, tmp_path / "changed.safetensors")
    compiled.weights = tmp_path / "changed.safetensors"
    run = chain.run_plan(compiled, 2)
    check_same(run.weights, changed)
    assert "recipes" not in run.output

    del changed["head.bias"]
    save_file(changed, tmp_path / "changed.safetensors")
    with pytest.raises(chain.ChainError, match="it has no head.bias"):
        chain.run_plan(compiled, 2)


def test_computed_values_are_in_the_file(tmp_path: pathlib.Path) -> None:
    compiled = chain.compile_step(STEP, tmp_path, ["--table"])
    assert set(load_file(compiled.weights)) >= {"fsdp.buffer.table"}
    run = chain.run_plan(compiled, 2)
    assert "start by the model's own recipes" in run.output
    with pytest.raises(chain.ChainError, match="no value for fsdp.buffer.table.*pass --weights"):
        without_weights(compiled, 2)


def test_files_in_parts(archive: pathlib.Path, start: chain.Result, tmp_path: pathlib.Path) -> None:
    names = sorted(start.weights)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    folder = tmp_path / "model"
    folder.mkdir()
    for file, members in parts.items():
        save_file({name: start.weights[name] for name in members}, folder / file)
    index = folder / "model.safetensors.index.json"
    places = {name: file for file, members in parts.items() for name in members}
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    compiled = lower(archive, tmp_path, "mesh=2 shard-layout=flat")
    for compiled.weights in (folder, index):
        run = chain.run_plan(compiled, 2)
        check_same(run.weights, start.weights)
        assert "recipes" not in run.output
    save_file({names[0]: start.weights[names[0]]}, folder / "b.safetensors")
    with pytest.raises(chain.ChainError, match=f"{names[0]} is in both .*; name one file"):
        chain.run_plan(compiled, 2)


@pytest.mark.parametrize("comm", ("shm", "gloo"))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rank_0_alone_has_the_file(
    layout: str, comm: str, archive: pathlib.Path, start: chain.Result, tmp_path: pathlib.Path
) -> None:
    compiled = lower(archive, tmp_path, f"mesh=3 shard-layout={layout}")
    save_file(start.weights, tmp_path / "start.safetensors")
    flags = ["--weights-from-rank0", "--comm", comm, "--rendezvous", f"file://{tmp_path}/meeting"]
    ranks = []
    for rank in range(3):
        compiled.weights = tmp_path / ("start.safetensors" if rank == 0 else "absent.safetensors")
        saved = ["--save", tmp_path / "saved.safetensors"]
        ranks.append(
            subprocess.Popen(
                [*chain.run_arguments(compiled), *flags, *map(str, saved)],
                env=chain.environment(RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(rank)),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, 0], said
    check_same(load_file(tmp_path / "saved.safetensors"), start.weights)


def test_rank_0_says_what_it_lacks(archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    compiled = lower(archive, tmp_path, "mesh=2")
    compiled.weights = tmp_path / "absent.safetensors"
    with pytest.raises(chain.ChainError, match="cannot open .*absent.safetensors"):
        chain.run_plan(compiled, 2, threads=False, extra=["--weights-from-rank0"])


MIB = 1 << 20


def bytes_read(compiled: chain.Compiled, world: int) -> list[int]:
    """What each rank has read of files when the first step is done."""
    metrics = compiled.plan.parent / "metrics.jsonl"
    arguments = [*chain.run_arguments(compiled, 100_000), "--nproc", str(world)]
    run = subprocess.Popen(
        [*arguments, "--metrics", str(metrics)],
        env=chain.environment(),
        stdout=subprocess.DEVNULL,
    )
    try:
        while not metrics.exists() or not metrics.read_text().count("\n"):
            assert run.poll() is None
            time.sleep(0.05)
        children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        return [
            count(pathlib.Path("/proc", p), compiled.weights) for p in children or [str(run.pid)]
        ]
    finally:
        run.terminate()
        run.wait()


def count(process: pathlib.Path, weights: pathlib.Path) -> int:
    assert str(weights) not in (process / "maps").read_text()
    counts = dict(line.split(": ") for line in (process / "io").read_text().splitlines())
    return int(counts["rchar"])


def test_a_rank_takes_its_part(tmp_path: pathlib.Path) -> None:
    # 16 layers of 1024 x 1024 float32: 64 MiB of parameters.
    argv = ["--width", "1024", "--layers", "17", "--real"]
    chain.export(STEP, tmp_path / "step.pt", argv)
    found = {}
    for world in (1, 4):
        compiled = lower(tmp_path / "step.pt", tmp_path / str(world), f"mesh={world}")
        found[world] = bytes_read(compiled, world)
    (whole,) = found[1]
    for part in found[4]:
        assert whole - part == pytest.approx(48 * MIB, rel=0.05)

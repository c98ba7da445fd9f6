"""Tests that a loop of one's own loses nothing to a checkpoint or a file that cannot be written."""

from __future__ import annotations

import pathlib

import pytest

import fsdp_mlir

from . import calls
from .conftest import Compile
from .faults import full_disk
from .ranks import Ranks
from .test_own_loop import load


def test_a_full_disk_does_not_end_a_loop(compile_step: Compile, tmp_path: pathlib.Path) -> None:
    compiled, feed = compile_step("mesh=1"), calls.batches()
    with load(compiled) as run:
        run(next(feed))
        before = run.checkpoint(tmp_path / "kept")
        run(next(feed))
        with full_disk():
            with pytest.raises(fsdp_mlir.RunError, match="could not be written: .*are whole"):
                run.checkpoint(tmp_path / "kept")
            with pytest.raises(fsdp_mlir.RunError, match="weights.safetensors"):
                run.save(tmp_path / "weights.safetensors")
        assert not (tmp_path / "weights.safetensors").exists()
        assert run.step == 2
        assert sorted(path.name for path in (tmp_path / "kept").glob("step-*")) == [before.name]
        run(next(feed))
        assert run.checkpoint(tmp_path / "kept").name == "step-00000003"
        run.save(tmp_path / "weights.safetensors")


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_a_full_disk_of_one_rank_ends_none(
    layout: str, compile_step: Compile, ranks: Ranks, tmp_path: pathlib.Path
) -> None:
    """All ranks learn of it, and can go on."""
    compiled = compile_step(f"mesh=2 shard-layout={layout}")
    found = ranks.call(
        "write_on_full_disk",
        str(compiled.plan),
        str(compiled.weights),
        ranks.meeting(),
        str(tmp_path / "kept"),
    )
    assert found[0] == found[1]
    (checkpoint, saved), last = found[0]
    assert checkpoint[0] == saved[0] == "RunError"
    assert "the checkpoint of step 1 could not be written: rank 0: " in checkpoint[1]
    assert "weights.safetensors" in saved[1]
    assert last == str(tmp_path / "kept" / "step-00000002")


def test_checkpoints_may_go_to_several_folders(
    compile_step: Compile, tmp_path: pathlib.Path
) -> None:
    compiled, feed = compile_step("mesh=1"), calls.batches()
    with load(compiled) as run:
        for folder, keep in (("often", 1), ("seldom", 0), ("often", 1), ("often", 2)):
            run(next(feed))
            run.checkpoint(tmp_path / folder, keep=keep)
    steps = {
        folder: sorted(int(path.name[5:]) for path in (tmp_path / folder).glob("step-*"))
        for folder in ("often", "seldom")
    }
    assert steps == {"often": [3, 4], "seldom": [2]}


def test_a_folder_of_another_run_is_left_alone(
    compile_step: Compile, tmp_path: pathlib.Path
) -> None:
    compiled, feed = compile_step("mesh=1"), calls.batches()
    for name, steps in (("one", 2), ("other", 1)):
        with load(compiled) as run:
            for _ in range(steps):
                run(next(feed))
            run.checkpoint(tmp_path / name)
    with load(compiled, resume=tmp_path / "one") as run:
        run(next(feed))
        with pytest.raises(fsdp_mlir.RunError, match="has checkpoints of a run, the newest of"):
            run.checkpoint(tmp_path / "other")
        assert run.checkpoint(tmp_path / "one").name == "step-00000003"


def test_one_stream_of_random_numbers_is_in_no_checkpoint(
    compile_step: Compile, tmp_path: pathlib.Path
) -> None:
    compiled = compile_step("mesh=1")
    words = "not possible with rng='sequential'"
    with load(compiled, rng="sequential") as run:
        with pytest.raises(fsdp_mlir.RunError, match=f"a checkpoint is {words}"):
            run.checkpoint(tmp_path)
        run(next(calls.batches()))
    with pytest.raises(fsdp_mlir.RunError, match=f"resuming is {words}"):
        load(compiled, rng="sequential", resume=tmp_path)

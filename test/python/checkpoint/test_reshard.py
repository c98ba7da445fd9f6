"""Tests that a checkpoint is the same in any number of files, and a run goes on from each."""

from __future__ import annotations

import os
import pathlib
import resource
import shutil

import pytest
import torch
from small_run import SmallRun, add_loader, command, contents, refusal

from fsdp_mlir.checkpoint.errors import CheckpointError
from fsdp_mlir.checkpoint.folder import unfinished
from fsdp_mlir.checkpoint.reader import open_checkpoint


def test_bits_survive_a_circle(run: SmallRun, tmp_path: pathlib.Path) -> None:
    whole = contents(run.at(10))
    assert ("norm.running_mean", 1) in whole and ("norm.weight", 1) not in whole
    path = run.at(10)
    for place, ranks in enumerate((1, 2, 3, 4, 1)):
        target = tmp_path / str(place)
        status, out, err = command("reshard", path, "--ranks", ranks, "-o", target)
        assert status == 0, err
        path = target / "step-00000010"
        assert out == f"{path}\n"
        assert command("verify", path)[0] == 0
        # Two ranks have statistics of their own.
        assert len(list(path.glob("*.safetensors"))) == max(ranks, 2)
        assert contents(path) == whole
    with open_checkpoint(run.at(10)) as old, open_checkpoint(path) as new:
        assert new.manifest.run == old.manifest.run


def test_states_of_loaders_stay(run: SmallRun, tmp_path: pathlib.Path) -> None:
    path = pathlib.Path(shutil.copytree(run.at(10), tmp_path / "step-00000010"))
    for rank in range(2):
        add_loader(path, rank, b"after batch %d" % rank)
    assert command("reshard", path, "--ranks", 3, "-o", tmp_path / "three")[0] == 0
    with open_checkpoint(tmp_path / "three") as new:
        states = [new.loader_state(loader) for loader in new.manifest.loaders]
    assert states == [b"after batch 0", b"after batch 1"]


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_run_goes_on_from_a_resharded_one(
    run: SmallRun, ranks: int, tmp_path: pathlib.Path
) -> None:
    assert command("reshard", run.at(10), "--ranks", ranks, "-o", tmp_path)[0] == 0
    resumed = run.train(2, 12, "--resume", tmp_path)
    assert resumed.losses == run.result.losses[10:]
    for name, value in run.result.weights.items():
        assert torch.equal(resumed.weights[name], value), name


def test_there_may_be_more_files_than_a_process_may_open(
    run: SmallRun, tmp_path: pathlib.Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 150, before[1]))
    try:
        assert command("reshard", run.at(10), "--ranks", 300, "-o", tmp_path)[0] == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert contents(tmp_path / "step-00000010") == contents(run.at(10))


@pytest.mark.provokes("FSDP-E0904")
def test_nothing_is_overwritten_and_nothing_left_behind(
    run: SmallRun, tmp_path: pathlib.Path
) -> None:
    assert command("reshard", run.at(10), "--ranks", 2, "-o", tmp_path)[0] == 0
    assert "is there already" in refusal("reshard", run.at(10), "--ranks", 1, "-o", tmp_path)
    into = tmp_path / "step-00000010"
    assert "is a checkpoint" in refusal("reshard", run.at(10), "--ranks", 1, "-o", into)
    (into / "rank-00001.safetensors").write_bytes(b"")
    assert "damaged" in refusal("reshard", into, "--ranks", 1, "-o", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_only_one_process_writes_under_a_name(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out"
    with unfinished(path) as partial:
        partial.write_text("first")
        with pytest.raises(CheckpointError, match="another process writes"):
            unfinished(path).__enter__()
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_is_removed(tmp_path: pathlib.Path) -> None:
    left = tmp_path / "out.partial"
    left.mkdir()
    (left / "out").write_text("half")
    with unfinished(tmp_path / "out") as partial:
        partial.mkdir()
    assert list(tmp_path.rglob("*")) == [tmp_path / "out"]


def test_a_lock_that_is_a_link_is_not_written_through(
    run: SmallRun, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "precious").write_text("words")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "lock").symlink_to(tmp_path / "precious")
    assert "lock: too many levels" in refusal(
        "reshard", run.at(10), "--ranks", 2, "-o", tmp_path / "b"
    )
    assert (tmp_path / "precious").read_text() == "words"

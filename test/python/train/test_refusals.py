"""Tests that a command line of the driver that makes no sense is one error, before a stage runs."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from fsdp_mlir.driver import stages
from fsdp_mlir.driver.given_paths import alone_in
from fsdp_mlir import train
from fsdp_mlir.train import main


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A step file of no words, for a driver that finds no programs."""
    monkeypatch.setattr(stages, "find_tools", dict)
    monkeypatch.setattr(train, "check_flags", lambda args, tools: None)
    path = tmp_path / "step.py"
    path.write_text("")
    return path


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one error that the driver ends with."""
    try:
        code = main(argv)
    except SystemExit as end:
        code = int(end.code or 0)
    output = capsys.readouterr()
    errors = re.findall(r"error: .*", output.err)
    assert code > 0 and len(errors) == 1, output
    assert "Traceback" not in output.err and output.out == ""
    return errors[0]


@pytest.mark.parametrize(
    "flags, message",
    (
        ("--weights nowhere", r"--weights \S*nowhere: no such file or folder \[FSDP-E0004\]"),
        ("--metrics folder", r"--metrics \S*folder is a folder; name a file \[FSDP-E0005\]"),
        ("--save folder", "--save .* is a folder"),
        ("--trace nowhere/trace", "--trace .*: there is no folder .*nowhere to write it into"),
        ("--eval-outputs file/x", "--eval-outputs .*: there is no folder .*file to write"),
        ("--cache-dir file", r"--cache-dir \S*file is a file; give a folder \[FSDP-E0005\]"),
        ("--out file", r"--out \S*file is a file; give a folder"),
        ("--metrics step.py", r"--metrics .* would write over the step file; .*FSDP-E0102"),
        ("--save data.bin", "--save .* would write over .*data.bin of the step file's flags"),
        ("--save out/metrics.jsonl", "--metrics and --save both write .*out/metrics.jsonl"),
        ("--metrics pipe", r"--metrics .*pipe is no regular file, .*name a file \[FSDP-E0005\]"),
        ("--metrics /dev/null", "--metrics /dev/null is no regular file"),
        ("--checkpoint-dir file", r"--checkpoint-dir \S*file is a file; give a folder"),
        ("--resume nowhere", r"--resume: \S*nowhere is not there; name .* \[FSDP-E0901\]"),
        ("--resume folder", r"--resume: there is no checkpoint in .*; name \S*folder/checkpoints "),
        ("--batch-size 8", r"error: there is no flag --batch-size \(flags of the step file stand"),
        ("--kernels fast", r"no flag --kernels; it is an option .* --pipeline 'kernels=\.\.\.'"),
        ("--comm gloo", r"no flag --comm; it is one of fsdp-run, .* --run-args='--comm \.\.\.'"),
        ("--run-args '", r"--run-args: no closing quotation in .*; quote flags .* \[FSDP-E0101\]"),
        ("--node-rank -1", "--node-rank -1 is below 0"),
        ("--node-rank 2", "--node-rank 2 is not below --nnodes 1"),
        ("--nproc two", "--nproc: 'two' is no whole number from 1"),
    ),
)
def test_wrong_paths_and_flags_are_refused(
    flags: str,
    message: str,
    step: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "folder" / "checkpoints" / "step-00000003").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe")
    files = tmp_path / "file", tmp_path / "data.bin", step
    for path in files:
        path.write_text("kept")
    flag, value = flags.split()
    if (tmp_path / value).exists() or value.partition("/")[0] in ("file", "nowhere", "out"):
        value = str(tmp_path / value)
    out = [] if flag == "--out" else ["--out", str(tmp_path / "out")]
    argv = [*out, flag, value, str(step), f"--data={files[1]}"]
    assert re.search(message, refused(argv, capsys))
    assert [path.read_text() for path in files] == ["kept"] * 3


@pytest.mark.parametrize(
    "flags, message",
    (
        ("--keep=-1", r"--keep: '-1' is no whole number from 0 to \d+; .* \[FSDP-E0101\]"),
        ("--checkpoint-seconds=inf", "--checkpoint-seconds: 'inf' is no number of seconds above 0"),
        ("--trace=t --trace-steps=5:3", "--trace-steps: '5:3' is no range of steps"),
        ("--run-args=--rgn=site", "--run-args: there is no flag --rgn=site; the nearest is --rng"),
        ("--pipeline=remat=half", "--pipeline: remat=half does not exist; .* and auto.*FSDP-E0402"),
        ("--pipeline=memory-budget-mib=x", "--pipeline: memory-budget-mib=x is no number of MiB"),
        ("--config=run.toml", "--config run.toml: --log-interval: '0' is no whole number from 1"),
        (
            "--config=run.toml --log-interval=1",
            "--config run.toml: --pipeline: remat=half does not",
        ),
        ("--config=run.toml --log-interval=1 --pipeline=remat=part", "^error: --pipeline: remat="),
        ("--config=run.toml --log-interval=-1", "^error: --log-interval: .-1. is no whole"),
        ("--config=two.toml", "--config two.toml: --node-rank 2 is not below --nnodes 1 "),
        ("--out=", "--out: its value is empty; is a variable of the shell not set?"),
        ("--run-args --poison", "--run-args: expected one argument; write --run-args=--poison"),
        ("--run-args=--nproc=4", "--run-args: --nproc is given more than once"),
        ("--run-args=--help", "--run-args --help takes the place of a run"),
        ("--pipeline=device=cuda", "for GPUs, and this (machine|build) .*FSDP-E1001"),
        ("--run-args=--comm=nccl", "--run-args: --comm nccl is for GPUs, and the plan is for CPUs"),
        ("--nproc=3 --pipeline=mesh=2", "mesh=2 has other ranks than the 3 of this run"),
    ),
)
def test_what_is_passed_on_is_checked_by_who_takes_it(
    flags: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "step.py").write_text("raise RuntimeError('it is exported')")
    (tmp_path / "run.toml").write_text("log-interval = 0\n[pipeline]\nremat = 'half'")
    (tmp_path / "two.toml").write_text("node-rank = 2")
    assert re.search(message, refused([*flags.split(), "step.py"], capsys))
    assert not (tmp_path / "out").exists()


def test_a_launcher_starts_no_driver(
    step: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert "LOCAL_RANK says that a launcher" in refused([str(step)], capsys)


def test_a_start_anew_leaves_an_earlier_run_as_it_is(
    step: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tests that a forgotten --resume costs the earlier run none of its files."""
    out = tmp_path / "out"
    (out / "checkpoints" / "step-00000012").mkdir(parents=True)
    left = [out / name for name in ("metrics.jsonl", "run.toml", "report.html")]
    for path in left:
        path.write_text("of the earlier run")
    error = refused(["--out", str(out), "--checkpoint-interval", "1", str(step)], capsys)
    assert "newest of step 12; go on with --resume auto" in error and "FSDP-E0904" in error
    assert [path.read_text() for path in left] == ["of the earlier run"] * 3


def test_an_output_folder_belongs_to_one_run(
    step: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with alone_in(out):
        error = refused(["--out", str(out), str(step)], capsys)
    assert "another run writes into it" in error and list(out.iterdir()) == []
    with alone_in(out):
        pass


def test_a_copy_for_which_there_is_no_room_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*paths: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def cut(source: Path, target: Path) -> None:
        target.write_text("ha")
        full()

    source, target = tmp_path / "result", tmp_path / "step.plan"
    source.write_text("half")
    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr(stages.shutil, "copyfile", cut)
    with pytest.raises(stages.StageError, match="step.plan: No space left .*; make room, or"):
        stages.place(source, target)
    assert list(tmp_path.iterdir()) == [source]

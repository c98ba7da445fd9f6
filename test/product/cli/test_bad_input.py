"""Tests that each bad input of a run ends with one clear error, a non-zero exit
status, no output file and no hang."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import zipfile
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from product.cli.conftest import CLASSIFIER, SMALL
from product.cli.refusals import HANG_S, refused, run_refused
from support import chain


def flipped(path: pathlib.Path, at: float, folder: pathlib.Path) -> pathlib.Path:
    """A copy of a file with one bit flipped, `at` of its length in."""
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 4
    other = folder / f"flipped{path.suffix}"
    other.write_bytes(content)
    return other


def truncated(path: pathlib.Path, part: float, folder: pathlib.Path) -> pathlib.Path:
    content = path.read_bytes()
    other = folder / f"truncated{path.suffix}"
    other.write_bytes(content[: int(part * len(content))])
    return other


@pytest.mark.provokes("FSDP-E0004")
def test_missing_plan(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    run_refused(compiled, tmp_path, r"nothing\.plan", plan=tmp_path / "nothing.plan")


@pytest.mark.quick
@pytest.mark.parametrize("at", (0.0, 0.01, 0.3, 0.7, 1.0))
def test_corrupt_plan(at: float, compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    plan = flipped(compiled.plan, at, tmp_path)
    run_refused(compiled, tmp_path, r"flipped\.plan", plan=plan)


@pytest.mark.parametrize("part", (0.0, 0.005, 0.5, 0.99))
def test_truncated_plan(part: float, compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    plan = truncated(compiled.plan, part, tmp_path)
    run_refused(compiled, tmp_path, r"truncated\.plan", plan=plan)


@pytest.mark.provokes("FSDP-E1001")
def test_plan_for_gpus(
    archive: pathlib.Path, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "cuda"
    other = chain.lower(CLASSIFIER, archive, folder, SMALL, "mesh=2 device=cuda")
    message = r"the plan is for GPUs, and this .*; .*for device=cpu"
    run_refused(compiled, tmp_path, message, plan=other.plan)


FLAGS_OF_ONE_DEVICE = {
    "cpu": (("--comm", "nccl"), ("--single-communicator",), ("--cuda-graph",)),
    "cuda": (
        ("--comm", "shm"),
        ("--comm", "gloo"),
        ("--throttle", "1"),
        ("--host-streams", "threads"),
        ("--poison",),
    ),
}


@pytest.mark.provokes("FSDP-E0103")
@pytest.mark.parametrize("device", FLAGS_OF_ONE_DEVICE)
def test_flags_for_another_device(
    device: str, archive: pathlib.Path, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / device
    plan = chain.lower(CLASSIFIER, archive, folder, SMALL, f"mesh=2 device={device}").plan
    for flags in FLAGS_OF_ONE_DEVICE[device]:
        message = rf"{flags[0]}.* is for .PUs, and the plan is for .*; .*device="
        run_refused(compiled, tmp_path, message, plan=plan, extra=["--threads", *flags])


@pytest.mark.quick
@pytest.mark.parametrize(
    "flag, text",
    (
        ("--steps", "-1"),
        ("--steps", "99999999999999999999999"),
        ("--steps", ""),
        ("--epochs", "0x10"),
        ("--eval-interval", "-1"),
        ("--seed", "-99999999999999999999"),
        ("--log-interval", "0"),
        ("--nproc", "-2"),
        ("--rendezvous-timeout", "1e3"),
        ("--timeout", "nan"),
    ),
)
def test_numbers_out_of_range(flag: str, text: str, tmp_path: pathlib.Path) -> None:
    plan = tmp_path / "never.read"
    kind = r"(whole number from -?\d+|number of seconds above 0, up) to \d+"
    message = rf"error: {flag}: '{text}' is no {kind}; see fsdp-run --help"
    refused([chain.binary("fsdp-run"), plan, flag, text], message, absent=tmp_path / "saved")


@pytest.mark.parametrize("target", ("/dev/null", "/proc/self/fd/1"))
def test_weights_are_written_to_no_device(
    target: str, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    """Nor is a link replaced that leads to the log of a run, as /dev/stdout does."""
    device = tmp_path / "device"
    device.symlink_to(target)
    arguments = [chain.binary("fsdp-run"), compiled.plan, "--weights", compiled.weights]
    arguments += ["--data", compiled.data, "--steps", 1, "--nproc", 2, "--save", device]
    refused(arguments, "it is no regular file; name another", absent=tmp_path / "saved")
    assert device.is_symlink()


@pytest.mark.provokes("FSDP-E0501")
def test_archive_given_as_plan(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    run_refused(compiled, tmp_path, r"step\.pt", plan=compiled.archive)


# Weights


def changed_weights(
    compiled: chain.Compiled, folder: pathlib.Path, tensors: dict[str, torch.Tensor]
) -> pathlib.Path:
    with safe_open(compiled.weights, "pt") as file:
        metadata = file.metadata()
    path = folder / "changed.safetensors"
    save_file(tensors, path, metadata=metadata)
    return path


def test_missing_weights(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    nowhere = tmp_path / "nowhere.safetensors"
    run_refused(compiled, tmp_path, r"nowhere\.safetensors", weights=nowhere)


@pytest.mark.provokes("FSDP-E0907")
def test_weights_without_parameters(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    tensors = load_file(compiled.weights)
    del tensors["weight"], tensors["bias"]
    weights = changed_weights(compiled, tmp_path, tensors)
    run_refused(compiled, tmp_path, r"\bweight\b", r"\bbias\b", weights=weights)


def test_weights_of_other_shapes(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    tensors = load_file(compiled.weights)
    tensors["weight"] = torch.zeros(3, 6)
    tensors["bias"] = torch.zeros(4)
    weights = changed_weights(compiled, tmp_path, tensors)
    run_refused(compiled, tmp_path, r"\bweight\b", r"\bbias\b", weights=weights)


@pytest.mark.parametrize("part", (0.0, 0.1, 0.9))
def test_truncated_weights(part: float, compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    weights = truncated(compiled.weights, part, tmp_path)
    run_refused(compiled, tmp_path, r"truncated\.safetensors", weights=weights)


# Data


def changed_data(
    compiled: chain.Compiled, folder: pathlib.Path, **changes: torch.Tensor
) -> pathlib.Path:
    path = folder / "changed.safetensors"
    save_file(load_file(compiled.data) | changes, path)
    return path


def test_data_of_the_wrong_dtype(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    y = load_file(compiled.data)["y"].to(torch.int32)
    data = changed_data(compiled, tmp_path, y=y)
    run_refused(compiled, tmp_path, r"\by\b", "int32", "int64", data=data)


def test_data_of_the_wrong_shape(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    data = changed_data(compiled, tmp_path, x=torch.zeros(301, 6))
    run_refused(compiled, tmp_path, r"\bx\b", "6", "5", data=data)


def test_data_that_lacks_an_input(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    tensors = load_file(compiled.data)
    save_file({"x": tensors["x"]}, tmp_path / "x.safetensors")
    run_refused(compiled, tmp_path, r"\by\b", data=tmp_path / "x.safetensors")


@pytest.mark.provokes("FSDP-E0704")
def test_fewer_samples_than_a_global_batch(
    compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    tensors = load_file(compiled.data)
    data = changed_data(compiled, tmp_path, x=tensors["x"][:15], y=tensors["y"][:15])
    run_refused(compiled, tmp_path, r"\b15\b", r"\b16\b", data=data)


@pytest.mark.parametrize("threads", (True, False))
def test_loss_that_becomes_nan(
    threads: bool, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    # Without shuffling, rank 1 sees sample 17 as its first of step 2.
    x = load_file(compiled.data)["x"].clone()
    x[17] = float("nan")
    data = changed_data(compiled, tmp_path, x=x)
    extra = ["--no-shuffle", "--non-finite", "stop"] + (["--threads"] if threads else [])
    run_refused(compiled, tmp_path, "(?i)nan", "step 2", "rank 1", data=data, extra=extra)


# Checkpoints

NONSENSE = {
    "--resume nothing": "--resume .*nothing: no such file or folder; name the folder",
    "--resume a/file": "there is no checkpoint in .*file; name the folder",
    "--resume ": "--resume: its value is empty; is a variable of the shell not set",
    "--resume auto": "needs --checkpoint-dir",
    "--checkpoint-dir a/file": "cannot make the folder .*file: Not a directory",
    "--checkpoint-dir a --keep-best beauty": "--keep-best beauty is no metric of the plan, .* loss",
    "--checkpoint-dir a --checkpoint-interval 0": "'0' is no whole number from 1",
    "--checkpoint-dir a --keep -1": "'-1' is no whole number from 0",
    "--checkpoint-interval 2": "requires --checkpoint-dir",
    "--non-finite perhaps": "--non-finite: perhaps not in {continue,skip,stop}",
    "--non-finite skip": "compile it with the option non-finite=skip of fsdp-pipeline",
}


@pytest.mark.parametrize("flags", NONSENSE)
def test_wrong_flags_of_checkpoints_are_refused(
    flags: str, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("text")
    words = flags.split(" ")
    extra = [tmp_path / word if word in ("nothing", "a", "a/file") else word for word in words]
    run_refused(compiled, tmp_path, NONSENSE[flags], extra=["--threads", *extra])
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file"]


# Length, mesh and ranks


def test_longer_than_the_table_of_learning_rates(tmp_path: pathlib.Path) -> None:
    gpt = CLASSIFIER.with_name("gpt.py")
    flags = ("--layers", "1", "--warmup", "3")
    compiled = chain.compile_step(gpt, tmp_path, flags, "mesh=1")
    run_refused(compiled, tmp_path, r"\b60\b", r"\b61\b", steps=61, nproc=1)


@pytest.mark.provokes("FSDP-E0005")
def test_output_folder_that_is_missing(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    extra = ["--threads", "--metrics", tmp_path / "nowhere" / "metrics.jsonl"]
    run_refused(compiled, tmp_path, r"nowhere", extra=extra)


@pytest.mark.parametrize("there", (True, False))
def test_metrics_do_not_follow_a_link(
    there: bool, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    of_another = tmp_path / "of-another"
    if there:
        of_another.write_text("kept")
    (tmp_path / "metrics.jsonl").symlink_to(of_another)
    extra = ["--threads", "--metrics", tmp_path / "metrics.jsonl"]
    run_refused(compiled, tmp_path, r"metrics\.jsonl: it is a link; name the file", extra=extra)
    assert not there or of_another.read_text() == "kept"


@pytest.mark.parametrize("flag", ("--metrics", "--summary", "--trace"))
@pytest.mark.parametrize(
    "place, why",
    (
        ("pipe", "nobody reads from this pipe"),
        ("/dev/fd/77", "Bad file descriptor"),
        ("/proc/none", "cannot write /proc/none: .*; name a file in a folder"),
    ),
)
def test_what_cannot_be_written_is_refused_before_a_step(
    place: str, why: str, flag: str, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    extra = ["--threads", flag, tmp_path / place]
    assert "step: 1" not in run_refused(compiled, tmp_path, why, extra=extra)


def test_a_summary_waits_for_no_second_reader(
    compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    """What is tried at the start is no end to who reads the pipe."""
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
        run = [*chain.run_arguments(compiled, 1), "--threads", "--nproc", 2]
        chain.command([*run, "--summary", tmp_path / "pipe"], timeout=HANG_S)
        assert json.loads(reader.communicate(timeout=HANG_S)[0])["steps"] == 1


@pytest.mark.parametrize(
    "limit, comm, words",
    (
        (1000, "auto", "takes up to .* ulimit -f allows 1000; allow more"),
        (65536, "shm", "File too large, than ulimit -f allows; allow more"),
    ),
)
def test_a_limit_of_the_sizes_of_files_is_named(
    limit: int, comm: str, words: str, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    run = [*chain.run_arguments(compiled, 1), "--nproc", 2, "--comm", comm]
    refused(["prlimit", f"--fsize={limit}", *run], words, absent=tmp_path / "none")


# Archives


def import_refused(archive: pathlib.Path, folder: pathlib.Path, *patterns: str) -> None:
    output = folder / "out.mlir"
    translate = [chain.binary("fsdp-translate"), "--import-torchscript", archive]
    refused([*translate, "-o", output], *patterns, absent=output)


def test_missing_archive(tmp_path: pathlib.Path) -> None:
    import_refused(tmp_path / "nothing.pt", tmp_path, r"nothing\.pt")


@pytest.mark.parametrize("part", (0.0, 0.3, 0.99))
def test_truncated_archive(part: float, archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    import_refused(truncated(archive, part, tmp_path), tmp_path, r"truncated\.pt")


def test_file_that_is_no_archive(tmp_path: pathlib.Path) -> None:
    import_refused(CLASSIFIER, tmp_path, r"classifier\.py")


def test_torchscript_of_another_exporter(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "other.pt"
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2)), path)
    import_refused(path, tmp_path, r"other\.pt", "fsdp.json")


def rewritten(archive: pathlib.Path, path: pathlib.Path, change: Any) -> pathlib.Path:
    """A copy of the archive; `change` maps a record's name and content to its
    new content, or to None to leave it out."""
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(path, "w") as new:
        for record in old.infolist():
            content = change(record.filename, old.read(record))
            if content is not None:
                new.writestr(record.filename, content)
    return path


def test_altered_archives(archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(archive) as records:
        names = records.namelist()
    for name in names:
        if not archive_content(archive, name):
            continue

        def flip(record: str, content: bytes, name: str = name) -> bytes:
            if record != name:
                return content
            middle = len(content) // 2
            other = bytes([content[middle] ^ 1])
            return content[:middle] + other + content[middle + 1 :]

        path = rewritten(archive, tmp_path / "altered.pt", flip)
        import_refused(path, tmp_path, r"altered\.pt")


def archive_content(archive: pathlib.Path, name: str) -> bytes:
    with zipfile.ZipFile(archive) as records:
        return records.read(name)


@pytest.mark.provokes("FSDP-E0301")
def test_archive_that_lacks_a_record(archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def drop(record: str, content: bytes) -> bytes | None:
        return None if record.endswith(".py") else content

    path = rewritten(archive, tmp_path / "lacking.pt", drop)
    import_refused(path, tmp_path, r"lacking\.pt", r"code/")


def test_archive_with_a_further_record(archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "further.pt"
    shutil.copy(archive, path)
    with zipfile.ZipFile(path, "a") as records:
        top = records.namelist()[0].split("/")[0]
        records.writestr(f"{top}/extra/surprise", b"hello")
    import_refused(path, tmp_path, r"further\.pt", "surprise")

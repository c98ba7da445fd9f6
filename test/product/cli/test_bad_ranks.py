"""Tests that ranks which do not fit together, or do not meet, end with one error each."""

from __future__ import annotations

import contextlib
import datetime
import json
import pathlib
import socket
from typing import Any

import pytest
import torch.distributed
from safetensors.torch import load_file, save_file

from product.cli.conftest import CLASSIFIER
from product.cli.refusals import HANG_S, check_refusal, run_refused
from product.cli.test_launch import started
from support import chain


@pytest.mark.parametrize("threads", (True, False))
@pytest.mark.parametrize("nproc", (1, 3))
def test_mesh_and_world_size_differ(
    nproc: int, threads: bool, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    extra = ["--threads"] if threads else []
    run_refused(compiled, tmp_path, r"\b2\b", rf"\b{nproc}\b", "mesh", nproc=nproc, extra=extra)


def rank_command(compiled: chain.Compiled, meeting: str, saved: pathlib.Path) -> list[Any]:
    run = chain.run_arguments(compiled, 3)
    return [*run, "--rendezvous", meeting, "--save", saved]


def test_ranks_with_different_plans(
    archive: pathlib.Path, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    options = "mesh=2 reshard-after-forward=true"
    other = chain.lower(CLASSIFIER, archive, tmp_path / "other", (), options)
    saved = tmp_path / "saved.safetensors"
    meeting = f"file://{tmp_path}/meeting"
    commands = [rank_command(c, meeting, saved) for c in (compiled, other)]
    environments = [chain.environment(RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    with started(commands, environments) as processes:
        outputs = [process.communicate(timeout=HANG_S)[0] for process in processes]
        for process, output in zip(processes, outputs):
            check_refusal(process.returncode, output, "plan")
    assert not saved.exists()


@pytest.mark.parametrize("kind", ("data", "order", "weights"))
def test_ranks_with_different_files(
    kind: str, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    """One sample is missing, or all have changed places, or one weight is another."""
    theirs = compiled.weights if kind == "weights" else compiled.data
    tensors = load_file(theirs)
    if kind == "data":
        tensors = {name: tensor[:-1].contiguous() for name, tensor in tensors.items()}
    elif kind == "order":
        tensors = {name: tensor.roll(1, 0) for name, tensor in tensors.items()}
    else:
        tensors["weight"][-1, -1] += 1
    save_file(tensors, tmp_path / "other.safetensors")
    saved = tmp_path / "saved.safetensors"
    command = rank_command(compiled, f"file://{tmp_path}/meeting", saved)
    other = [str(tmp_path / "other.safetensors") if c == str(theirs) else c for c in command]
    environments = [chain.environment(RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    what = "samples in" if kind == "data" else "fingerprint"
    with started([command, other], environments) as processes:
        outputs = [process.communicate(timeout=HANG_S)[0] for process in processes]
        for process, output in zip(processes, outputs):
            check_refusal(process.returncode, output, what, "rank 1", "same files", "FSDP-E0607")
    assert not saved.exists()


def test_ranks_with_different_flags(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    saved = tmp_path / "saved.safetensors"
    command = rank_command(compiled, f"file://{tmp_path}/meeting", saved)
    commands = [[*command, "--seed", str(seed)] for seed in (1, 2)]
    environments = [chain.environment(RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    with started(commands, environments) as processes:
        for process in processes:
            output = process.communicate(timeout=HANG_S)[0]
            words = r"different set of flags: .* seed=1 .* and .* seed=2 "
            check_refusal(process.returncode, output, words, "FSDP-E0607")
    assert not saved.exists()


def test_a_folder_that_is_not_there_stays_so(
    compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    """The rank that waits for the one which cannot write writes down nothing there either."""
    metrics = tmp_path / "none" / "metrics.jsonl"
    run_refused(compiled, tmp_path, "cannot write .*none/met", extra=["--metrics", metrics])
    assert not metrics.parent.exists()


def test_a_rank_that_fails_while_it_loads(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    """The other one writes down how far both were."""
    saved = tmp_path / "saved.safetensors"
    command = rank_command(compiled, f"file://{tmp_path}/meeting", saved)
    command += ["--flight-record", tmp_path]
    other = [str(tmp_path / "none") if c == str(compiled.weights) else c for c in command]
    environments = [chain.environment(RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    record = tmp_path / "flight-rank0.json"
    with started([command, other], environments) as processes:
        outputs = [process.communicate(timeout=HANG_S)[0] for process in processes]
    check_refusal(processes[0].returncode, outputs[0], f"rank 1 failed: .*; see {record}")
    found = json.loads(record.read_text())
    assert found["not_arrived"] == [1] and found["streams"] == {}
    assert not (tmp_path / "flight-rank1.json").exists()


@pytest.mark.parametrize(
    "kind, rank", (("tcp", 0), ("tcp", 1), ("file", 0), ("silent", 1)), ids=str
)
def test_rank_that_never_arrives(
    kind: str, rank: int, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    """Or whose process is stopped: its socket takes connections, and nobody answers."""
    with contextlib.ExitStack() as stack:
        port = chain.free_port()
        if kind == "silent":
            silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = silent.getsockname()[1]
        meeting = f"file://{tmp_path}/meeting" if kind == "file" else f"tcp://127.0.0.1:{port}"
        saved = tmp_path / "saved.safetensors"
        command = rank_command(compiled, meeting, saved) + ["--rendezvous-timeout", "1"]
        processes = started([command], [chain.environment(RANK=str(rank), WORLD_SIZE="2")])
        (process,) = stack.enter_context(processes)
        output = process.communicate(timeout=HANG_S)[0]
    check_refusal(process.returncode, output, rf"rank {1 - rank}\b", "within 1 s", "FSDP-E0605")
    assert ("127.0.0.1 is this host itself" in output) == (kind != "file")
    assert not saved.exists()


@pytest.mark.parametrize(
    "mistake, words",
    (("--no-such-flag", "no flag"), ("no.plan", "cannot (open|read)"), ("alone", "mesh")),
)
@pytest.mark.parametrize("failing", (0, 1))
def test_a_rank_that_fails_on_its_way(
    failing: int,
    mistake: str,
    words: str,
    archive: pathlib.Path,
    compiled: chain.Compiled,
    tmp_path: pathlib.Path,
) -> None:
    """The one that waits for it hears why, whichever of them is to serve the place."""
    saved = tmp_path / "saved.safetensors"
    meeting = f"tcp://127.0.0.1:{chain.free_port()}"
    command = rank_command(compiled, meeting, saved)
    wrong = [*command, mistake]
    if mistake == "no.plan":
        wrong = [str(tmp_path / mistake) if c == str(compiled.plan) else c for c in command]
    elif mistake == "alone":
        alone = chain.lower(CLASSIFIER, archive, tmp_path / "alone", (), "mesh=1").plan
        wrong = [str(alone) if c == str(compiled.plan) else c for c in command]
    commands = [wrong if rank == failing else command for rank in range(2)]
    environments = [chain.environment(RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    with started(commands, environments) as processes:
        outputs = [process.communicate(timeout=HANG_S)[0] for process in processes]
    check_refusal(processes[failing].returncode, outputs[failing], words)
    told = rf"rank {failing} on \S+ failed before it met the others: .*{words}.*FSDP-E0610"
    check_refusal(processes[1 - failing].returncode, outputs[1 - failing], told)
    assert not saved.exists()


@pytest.mark.parametrize("failing", (0, 1))
def test_a_host_that_fails_before_it_has_ranks(
    failing: int, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    """As the driver tells it, whose step file raised an error there."""
    command = [*chain.run_arguments(compiled, 3), "--nproc", 1, "--nnodes", 2]
    command += ["--master-port", chain.free_port(), "--rendezvous-timeout", 60]
    declines = ([], ["--decline=export: no luck"])
    commands = [[*command, "--node-rank", r, *declines[r == failing]] for r in range(2)]
    with started(commands, [chain.environment()] * 2) as processes:
        outputs = [process.communicate(timeout=HANG_S)[0] for process in processes]
    assert processes[failing].returncode == 0, outputs[failing]
    told = rf"rank {failing} on \S+ failed before it met the others: export: no luck .*FSDP-E0610"
    check_refusal(processes[1 - failing].returncode, outputs[1 - failing], told)


def test_port_in_use(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    saved = tmp_path / "saved.safetensors"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        command = rank_command(compiled, f"tcp://127.0.0.1:{port}", saved)
        env = chain.environment(RANK="0", WORLD_SIZE="2")
        with started([command], [env]) as (process,):
            output = process.communicate(timeout=HANG_S)[0]
    check_refusal(process.returncode, output, rf"\b{port}\b", "in use", "FSDP-E0604")
    assert not saved.exists()


def test_a_stranger_at_the_meeting(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    """Who knows where the ranks meet, and not their secret, neither reads nor is believed."""
    saved = tmp_path / "saved.safetensors"
    port = chain.free_port()
    command = rank_command(compiled, f"tcp://127.0.0.1:{port}", saved)
    env = chain.environment(RANK="0", WORLD_SIZE="2", FSDP_RUN_SECRET="known to all ranks")
    with started([command], [env]) as (process,):
        wait = datetime.timedelta(seconds=HANG_S)
        stranger = torch.distributed.TCPStore("127.0.0.1", port, timeout=wait)
        assert b"agree" not in stranger.get("fsdp-run/default/0/hello/0")
        stranger.set("fsdp-run/default/0/hello/1", '{"host": "here", "agree": {}}')
        # Nobody listens on another address of this host.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))
        output = process.communicate(timeout=HANG_S)[0]
    check_refusal(process.returncode, output, "what rank 1 says", "FSDP_RUN_SECRET")
    assert not saved.exists()


@pytest.mark.provokes("FSDP-E0608")
def test_encryption_that_is_none(
    compiled: chain.Compiled, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_DEVICE_TRANSPORT", "TCP_TLS")
    run_refused(compiled, tmp_path, "TCP_TLS", "unencrypted", extra=["--comm", "gloo"])


@pytest.mark.provokes("FSDP-E0601")
def test_rank_outside_the_world(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    saved = tmp_path / "saved.safetensors"
    command = rank_command(compiled, f"file://{tmp_path}/meeting", saved)
    env = chain.environment(RANK="2", WORLD_SIZE="2")
    done = chain.command(command, check=False, timeout=HANG_S, env=env)
    check_refusal(done.returncode, done.stdout + done.stderr, "RANK|rank")

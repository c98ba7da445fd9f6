"""Tests that every way to launch two ranks trains to the same bits."""

from __future__ import annotations

import contextlib
import pathlib
import re
import subprocess
import sys
from typing import Iterator, Sequence

import pytest
import torch

from support import chain

STEPS = 6
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--no-python"]


@pytest.fixture(scope="module")
def expected(compiled: chain.Compiled) -> chain.Result:
    return chain.run_plan(compiled, 2, steps=STEPS)


class Outputs:
    """Where a run is told to write, and what it must have written there."""

    def __init__(self, folder: pathlib.Path):
        self.metrics = folder / "metrics.jsonl"
        self.summary = folder / "summary.json"
        self.saved = folder / "saved.safetensors"
        self.arguments = ["--metrics", self.metrics, "--summary", self.summary]
        self.arguments += ["--save", self.saved]

    def check(self, expected: chain.Result) -> None:
        result = chain.read_result(self.metrics, self.summary, self.saved)
        assert result.losses == expected.losses
        assert sorted(result.weights) == sorted(expected.weights)
        for name, value in expected.weights.items():
            assert torch.equal(result.weights[name], value), name


@contextlib.contextmanager
def started(
    commands: Sequence[Sequence[object]], environments: Sequence[dict[str, str]]
) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that run side by side and never outlive the test."""
    processes = [
        subprocess.Popen(
            [str(argument) for argument in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=env,
        )
        for command, env in zip(commands, environments)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def run_together(
    commands: Sequence[Sequence[object]], environments: Sequence[dict[str, str]]
) -> None:
    with started(commands, environments) as processes:
        outputs = [process.communicate(timeout=120)[0] for process in processes]
        codes = [process.returncode for process in processes]
    assert not any(codes), "\n".join(outputs)


def rank_environments(**changes: str) -> list[dict[str, str]]:
    return [
        chain.environment(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), **changes)
        for rank in range(2)
    ]


@pytest.mark.quick
def test_ranks_as_processes_have_the_bits_of_threads(
    compiled: chain.Compiled, expected: chain.Result, tmp_path: pathlib.Path
) -> None:
    outputs = Outputs(tmp_path)
    chain.command([*chain.run_arguments(compiled, STEPS), "--nproc", 2, *outputs.arguments])
    outputs.check(expected)


def test_torchrun_standalone(
    compiled: chain.Compiled, expected: chain.Result, tmp_path: pathlib.Path
) -> None:
    outputs = Outputs(tmp_path)
    launcher = [*TORCHRUN, "--standalone", "--nproc-per-node", "2"]
    chain.command([*launcher, *chain.run_arguments(compiled, STEPS), *outputs.arguments])
    outputs.check(expected)


@pytest.mark.parametrize(
    ("flags", "line"),
    (
        ([], "2 ranks over shared memory: all are on one host"),
        (["--comm", "gloo"], "2 ranks over Gloo: as --comm says"),
        (
            ["--throttle", "10,20"],
            "2 ranks over shared memory, throttled to 10 GB/s and 20 us: all are on one host",
        ),
    ),
    ids=("auto", "gloo", "throttled"),
)
def test_the_first_line_names_the_transport(
    flags: list[str],
    line: str,
    compiled: chain.Compiled,
    expected: chain.Result,
    tmp_path: pathlib.Path,
) -> None:
    outputs = Outputs(tmp_path)
    run = chain.run_arguments(compiled, STEPS)
    done = chain.command([*run, "--nproc", 2, *flags, *outputs.arguments])
    assert done.stdout.splitlines()[0] == line
    outputs.check(expected)


@pytest.mark.parametrize("backend", ("static", "c10d"))
def test_two_torchrun_agents(
    backend: str,
    compiled: chain.Compiled,
    expected: chain.Result,
    tmp_path: pathlib.Path,
) -> None:
    outputs = Outputs(tmp_path)
    port = chain.free_port()
    commands = []
    for node in range(2):
        launcher = [*TORCHRUN, "--nnodes", "2", "--nproc-per-node", "1"]
        if backend == "static":
            launcher += ["--node-rank", node, "--master-addr", "127.0.0.1"]
            launcher += ["--master-port", port]
        else:
            launcher += ["--rdzv-backend", "c10d", "--rdzv-id", "agents"]
            launcher += ["--rdzv-endpoint", f"127.0.0.1:{port}"]
        run = chain.run_arguments(compiled, STEPS)
        commands.append([*launcher, *run, *outputs.arguments])
    run_together(commands, [chain.environment()] * 2)
    outputs.check(expected)


def test_two_nodes_without_torchrun(
    compiled: chain.Compiled, expected: chain.Result, tmp_path: pathlib.Path
) -> None:
    outputs = Outputs(tmp_path)
    port = chain.free_port()
    commands = []
    for node in range(2):
        launch = ["--nnodes", "2", "--node-rank", node, "--nproc", "1"]
        launch += ["--master-addr", "127.0.0.1", "--master-port", port]
        run = chain.run_arguments(compiled, STEPS)
        commands.append([*run, *launch, *outputs.arguments])
    run_together(commands, [chain.environment()] * 2)
    outputs.check(expected)


@pytest.mark.parametrize("kind", ("env", "tcp", "file"))
def test_rendezvous(
    kind: str,
    compiled: chain.Compiled,
    expected: chain.Result,
    tmp_path: pathlib.Path,
) -> None:
    outputs = Outputs(tmp_path)
    environments = rank_environments()
    if kind == "env":
        where = "env://"
        environments = rank_environments(
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(chain.free_port())
        )
    elif kind == "tcp":
        where = f"tcp://127.0.0.1:{chain.free_port()}"
    else:
        where = f"file://{tmp_path}/meeting"
    run = chain.run_arguments(compiled, STEPS)
    commands = [[*run, "--rendezvous", where, *outputs.arguments]] * 2
    run_together(commands, environments)
    outputs.check(expected)


@pytest.mark.parametrize(
    "rank, size",
    (
        ("SLURM_PROCID", "SLURM_NTASKS"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
    ),
)
def test_batch_systems(
    rank: str, size: str, compiled: chain.Compiled, expected: chain.Result, tmp_path: pathlib.Path
) -> None:
    """As srun and mpirun start ranks, with MASTER_ADDR and MASTER_PORT (docs/launching.md)."""
    outputs = Outputs(tmp_path)
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(chain.free_port())}
    environments = [chain.environment(**{rank: str(i), size: "2"}, **where) for i in range(2)]
    run_together([[*chain.run_arguments(compiled, STEPS), *outputs.arguments]] * 2, environments)
    outputs.check(expected)


def test_version_says_what_was_found() -> None:
    said = chain.command([chain.binary("fsdp-run"), "--version"]).stdout
    cuda = r"CUDA [\d.]+, NCCL [\d.]+, (driver for CUDA [\d.]+|no driver)|no CUDA"
    pytorch = rf"PyTorch {torch.__version__.split('+')[0]} with its Gloo"
    assert re.fullmatch(rf"fsdp-run [\d.]+, {pytorch}, ({cuda})\n", said)


@pytest.mark.quick
@pytest.mark.parametrize("ranks", (["--threads"], []), ids=("threads", "processes"))
def test_ranks_leave_the_environment_as_it_is(compiled: chain.Compiled, ranks: list[str]) -> None:
    """One that adds a variable while another reads one had crashed, once in many runs."""
    watched = chain.environment(LD_PRELOAD=str(chain.binary("one_threads_environment.so")))
    arguments = [*chain.run_arguments(compiled, 1), "--nproc", "2", "--comm", "gloo", *ranks]
    chain.command(arguments, env=watched)

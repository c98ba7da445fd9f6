"""Tests of loops of one's own on GPUs: on imitated ones the numbers, and on one whose kernels do
nothing, by PyTorch's own CUDA half, where tensors are and what a script finds as it left it."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Iterator

import pytest
import torch
from safetensors.torch import load_file

import fsdp_mlir
from support import chain

from . import calls
from .conftest import Compile

STEPS = 5


@pytest.fixture(scope="module")
def gpus() -> Iterator[ProcessPoolExecutor]:
    """A process that has the extension module of imitated GPUs."""
    folder = str(chain.imitated_gpus())
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed.tensor"])
    with ProcessPoolExecutor(1, context, initializer=_begin, initargs=(folder,)) as pool:
        yield pool


def _begin(folder: str) -> None:
    os.environ["FSDP_MLIR_BIN"] = folder
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("pipeline", "flags", "how"),
    [
        ("shard-layout=flat", (), {}),
        ("shard-layout=dim0", ("--cuda-graph",), {"cuda_graph": True}),
        ("shard-layout=dim0", ("--comm", "nccl"), {"comm": "nccl"}),
        ("offload=all", (), {}),
    ],
    ids=("streams", "graph", "nccl", "offload"),
)
def test_a_loop_has_the_bits_of_fsdp_run(
    gpus: ProcessPoolExecutor,
    pipeline: str,
    flags: tuple[str, ...],
    how: dict[str, Any],
    compile_step: Compile,
    tmp_path: pathlib.Path,
) -> None:
    compiled = compile_step(f"mesh=1 device=cuda {pipeline}")
    program = "imitated/fsdp-run"
    expected = chain.run_plan(compiled, 1, steps=STEPS, extra=flags, poison=False, program=program)
    saved = tmp_path / "saved.safetensors"
    plan, weights = str(compiled.plan), str(compiled.weights)
    run = gpus.submit(calls.train, plan, weights, str(saved), STEPS, **how).result()
    assert [row["loss"] for row in run["rows"]] == expected.losses
    assert run["transport"].startswith("NCCL" if "nccl" in flags else "copies between threads")
    for name, value in load_file(saved).items():
        assert torch.equal(value, expected.weights[name]), name


def test_a_script_has_its_tensors_on_the_gpu(compile_step: Compile) -> None:
    preload = str(chain.empty_gpu())
    compiled = compile_step("mesh=1 device=cuda", "--squares")
    script = pathlib.Path(__file__).with_name("gpu_script.py")
    for graph in ("", "graph"):
        command = [sys.executable, script, compiled.plan, compiled.weights, graph]
        environment = chain.environment(LD_PRELOAD=preload)
        ended = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (ended.returncode, ended.stdout) == (0, "all as it was\n"), ended.stderr


def test_what_is_for_other_devices_is_refused(
    gpus: ProcessPoolExecutor, compile_step: Compile
) -> None:
    compiled = compile_step("mesh=1 device=cuda")
    plan, weights = str(compiled.plan), str(compiled.weights)
    with pytest.raises(fsdp_mlir.RunError, match="comm=gloo is for CPUs, and the plan is for GPUs"):
        gpus.submit(calls.train, plan, weights, "", 1, comm="gloo").result()
    plan = str(compile_step("mesh=1").plan)
    with pytest.raises(fsdp_mlir.RunError, match="cuda_graph=True is for GPUs, .* device=cuda"):
        fsdp_mlir.load(plan, cuda_graph=True)

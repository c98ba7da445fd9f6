"""Tests that what `load` and a run are called with is held to what they take, in a line."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fsdp_mlir

from . import calls
from .conftest import Compile


def test_a_run_is_called_with_one_batch(compile_step: Compile) -> None:
    """Tests what a model would be called with: tensors in a row, and by name."""
    batch = next(calls.batches())
    compiled = compile_step("mesh=1")
    with fsdp_mlir.load(compiled.plan, compiled.weights) as run:
        for call in (run, run.eval):
            with pytest.raises(
                fsdp_mlir.BatchError, match="called with 2 arguments; give one batch"
            ):
                call(batch["x"], batch["y"])
            with pytest.raises(fsdp_mlir.BatchError, match="called with x, y by name; give one"):
                call(**batch)
        run(batch=batch)
        assert run.step == 1


def test_modes_around_a_call(compile_step: Compile) -> None:
    """Tests that an evaluation that would train is refused, and an autocast that would cast
    nothing; and that a script may have no gradients throughout."""
    batch = next(calls.batches())
    compiled = compile_step("mesh=1")
    with fsdp_mlir.load(compiled.plan, compiled.weights) as run:
        with torch.no_grad():
            run.eval(batch)
            with pytest.raises(fsdp_mlir.RunError, match=r"no_grad\(\), .*; run.eval\(batch\)"):
                run(batch)
        with torch.autocast("cpu", torch.bfloat16):
            for call in (run, run.eval):
                with pytest.raises(
                    fsdp_mlir.RunError, match="under torch.autocast.* into the loss"
                ):
                    call(batch)
        assert run.step == 0
    with torch.no_grad(), fsdp_mlir.load(compiled.plan, compiled.weights) as run:
        run(batch)


@pytest.mark.parametrize(
    "options, words",
    (
        ({"timeout": "x"}, "timeout is 'x'; give a number of seconds, or 0 for what the plan"),
        ({"timeout": -1}, "timeout is -1; give a number of seconds"),
        ({"meeting_timeout": None}, "meeting_timeout is None; give a number of seconds above 0"),
        ({"seed": 2.5}, "seed is 2.5; give a whole number"),
        ({"rng": "torch"}, "rng is 'torch'; give 'site' or 'sequential'"),
        ({"cuda_graph": "yes"}, "cuda_graph is 'yes'; give True or False"),
        ({"comm": None}, "comm is None; give 'auto', 'shm', 'gloo' or 'nccl'"),
        ({"weights": {}}, "weights is dict; give the path of a file"),
        ({"tiemout": 3}, "load has no option 'tiemout'; the nearest is 'timeout'"),
    ),
)
def test_arguments_of_load_are_checked(options: dict[str, Any], words: str) -> None:
    with pytest.raises(fsdp_mlir.RunError if "tiemout" not in options else TypeError, match=words):
        fsdp_mlir.load("/nowhere/step.plan", **options)
    with pytest.raises((fsdp_mlir.RunError, TypeError), match=words.replace("load has", ".* has")):
        fsdp_mlir.compile("/nowhere/step.py", **options)


def test_errors_of_the_runtime_name_arguments(
    compile_step: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests that what tells fsdp-run's users to give a flag tells these which argument."""
    compiled, pair = compile_step("mesh=1"), compile_step("mesh=2")
    with pytest.raises(fsdp_mlir.RunError, match="no value for .*; pass weights=FILE"):
        fsdp_mlir.load(compiled.plan)
    with pytest.raises(fsdp_mlir.RunError, match="resume=/nowhere: no such file or folder"):
        fsdp_mlir.load(compiled.plan, compiled.weights, resume="/nowhere")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(fsdp_mlir.RunError, match="pass rendezvous=tcp://HOST:PORT or file://"):
        fsdp_mlir.load(pair.plan, pair.weights)

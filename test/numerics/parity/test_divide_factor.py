"""Tests that a unit's gradients may be divided by another number than that of the ranks, as with
FSDP2's set_gradient_divide_factor."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch

from support import chain, compare, training
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training

GPT = pathlib.Path(__file__).parent / "models" / "gpt.py"
ODD = ("--width", "21", "--heads", "3", "--vocab", "61", "--length", "15")
# Of one unit a power of two, of another one not; the last has the mean.
CALLS = (Call(("blocks.0",), divisor=3.0), Call(("blocks.1",)), Call(("",), divisor=1.0))


@pytest.mark.parametrize("layout", ("dim0", "flat"))
@pytest.mark.parametrize("mesh", ((2,), (2, 2)))
def test_a_divide_factor_is_fsdp2s(
    mesh: tuple[int, ...], layout: str, tmp_path: pathlib.Path, fsdp2: Pool
) -> None:
    task = Training(GPT, ODD, CALLS, mesh)
    begun = fsdp2.start(task)
    run = training.run(task, tmp_path, f"shard-layout={layout}")
    compare.check_bits(run, begun())


def test_micro_batches_are_divided_once(tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    task = Training(GPT, ODD, CALLS, (2, 2), accumulate=3, reduces_each=True)
    begun = fsdp2.start(task)
    run = training.run(task, tmp_path, "shard-layout=flat accumulate-reduce=each")
    compare.check_bits(run, begun())


def test_half_precision_is_divided_before_and_after(tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    """By 2 before the sum and by 1.5 after it, so that it does not overflow."""
    calls = (Call(("",), divisor=3.0, precision={"reduce_dtype": torch.float16}),)
    task = Training(GPT, ODD, calls)
    begun = fsdp2.start(task)
    run = training.run(task, tmp_path)
    compare.check_bits(run, begun())


def test_one_rank_divides_too(tmp_path: pathlib.Path) -> None:
    """A fourth of the gradient is, for SGD, as a fourth of the learning rate."""

    def losses(folder: str, divisor: float | None, rate: float) -> list[float]:
        task = Training(GPT, (*ODD, "--optimizer", "sgd"), (Call(("",), divisor=divisor),), (1,))

        def training_step(flags: list[str]) -> Any:
            step = training.annotated(task)(flags)
            step.optimizer.param_groups[0]["lr"] = rate
            return step

        compiled = chain.compile_step(training_step, tmp_path / folder, task.argv, "")
        return chain.run_plan(compiled, 1, steps=task.steps).losses

    assert losses("divided", 4.0, 0.5) == losses("slow", None, 0.125)

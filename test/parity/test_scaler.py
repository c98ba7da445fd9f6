"""Tests that the loss is scaled as torch.amp.GradScaler scales FSDP2's: the same scales, the same
steps skipped on all ranks, the same bits."""

from __future__ import annotations

import pathlib

import pytest
import torch
from safetensors.torch import load_file, save_file

from support import chain, compare, training
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training

FILE = pathlib.Path(__file__).parent / "models" / "blocks.py"
UNITS = ("blocks.0", "blocks.1", "blocks.2", "")
# In float32 a gradient of more than 2 is infinite with this scale.
SCALE = ("--scale", str(2.0**127), "--loss-factor", "64")


def scaled(*flags: str, ranks: int = 2, steps: int = 14) -> Training:
    return Training(FILE, (*SCALE, *flags), tuple(Call((u,)) for u in UNITS), (ranks,), steps)


@pytest.mark.parametrize("layout", ("", "shard-layout=flat"))
def test_scales_and_skipped_steps_are_fsdp2s(
    layout: str, tmp_path: pathlib.Path, fsdp2: Pool
) -> None:
    described = scaled()
    expected = fsdp2.start(described)
    run = training.run(described, tmp_path, layout)
    trained = expected()
    assert [row["loss_scale"] for row in run.metrics] == trained.scales
    compare.check_bits(run, trained)
    # Some steps are skipped, at the start and later, where the scale has grown.
    pairs = list(zip(trained.scales, trained.scales[1:]))
    assert pairs[0][1] < pairs[0][0]
    grown = next(i for i, (a, b) in enumerate(pairs) if b > a)
    assert any(b < a for a, b in pairs[grown:])


def test_a_skipped_step_changes_nothing(tmp_path: pathlib.Path) -> None:
    described = scaled(steps=1)
    compiled = chain.compile_step(training.annotated(described), tmp_path, described.argv, "")
    run = chain.run_plan(compiled, 2, steps=1)
    start = load_file(compiled.weights)
    assert all(torch.equal(start[name], value) for name, value in run.weights.items())


def test_a_clipped_norm_is_without_the_scale(tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    described = scaled("--clip-norm", "20")
    expected = fsdp2.start(described)
    run = training.run(described, tmp_path)
    trained = expected()
    assert [row["loss_scale"] for row in run.metrics] == trained.scales
    compare.check_close(run, trained)
    for row, norm in zip(run.metrics, trained.grad_norms, strict=True):
        if norm < float("inf"):
            assert row["grad_norm"] == pytest.approx(norm, rel=1e-6)


def test_one_rank_and_three(tmp_path: pathlib.Path) -> None:
    """The collectives of a step: one maximum, or none."""
    for ranks, reductions in ((1, []), (3, [(1, 8)])):
        run = training.run(scaled(ranks=ranks), tmp_path / str(ranks))
        rows = [r for r in run.summary["collectives"] if r["kind"] == "all-reduce"]
        assert [(r["calls_per_step"], r["bytes_per_step"]) for r in rows] == reductions


def test_a_loss_that_is_no_number_is_skipped_too(tmp_path: pathlib.Path) -> None:
    """Whatever `--non-finite` says of steps without a scaler."""
    described = scaled(ranks=1, steps=3)
    compiled = chain.compile_step(training.annotated(described), tmp_path, described.argv, "")
    data = load_file(compiled.data)
    first = next(iter(data))
    data[first][:] = float("nan")
    save_file(data, compiled.data)
    run = chain.run_plan(compiled, 1, steps=3, poison=False)
    assert "the loss of step 2 is NaN on rank 0; the scaler skips the step" in run.output
    start = load_file(compiled.weights)
    assert all(torch.equal(start[name], value) for name, value in run.weights.items())

"""Tests that the loss is scaled as torch.amp.GradScaler scales FSDP2's: the same scales, the same
steps skipped on all ranks, the same bits."""

from __future__ import annotations

import pathlib

import pytest
import torch
from safetensors.torch import load_file, save_file

from fsdp_mlir import TrainingStep
from support import chain, compare, reference, training
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training

FILE = pathlib.Path(__file__).parent / "models" / "blocks.py"
UNITS = ("blocks.0", "blocks.1", "blocks.2", "")
# In float32 a gradient of more than 2 is infinite with this scale.
SCALE = ("--scale", str(2.0**127), "--loss-factor", "64")


def scaled(
    *flags: str, mesh: tuple[int, ...] = (2,), steps: int = 14, ignored: tuple[str, ...] = ()
) -> Training:
    calls = tuple(Call((unit,), ignored=ignored) for unit in UNITS)
    return Training(FILE, (*SCALE, *flags), calls, mesh, steps)


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


def test_replicas_skip_together(tmp_path: pathlib.Path) -> None:
    """Also where an ignored parameter, of which each has a gradient of its own, makes them."""
    shards, replicas = (
        training.run(scaled(mesh=mesh, ignored=("head.weight",)), tmp_path / str(mesh))
        for mesh in ((2,), (2, 1))
    )
    scales = [row["loss_scale"] for row in replicas.metrics]
    assert scales == [row["loss_scale"] for row in shards.metrics]
    assert scales[1] < scales[0] and replicas.losses == shards.losses


def normed(argv: list[str]) -> TrainingStep:
    """Has BatchNorm's statistics, two micro-batches, and an overflow in its first step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(5, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 3)
    )
    data = {"x": torch.randn(40, 5), "y": torch.randint(3, (40,))}
    return TrainingStep(
        model=model,
        loss=lambda model, x, y: 64 * torch.nn.functional.cross_entropy(model(x), y),
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
        inputs={name: tensor[:4] for name, tensor in data.items()},
        data=data,
        accumulate=2,
        scaler=torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=2),
    )


def test_a_skipped_step_changes_buffers_as_in_pytorch(tmp_path: pathlib.Path) -> None:
    """A scaler leaves out optimizer.step() alone: forward has written the statistics of every
    micro-batch by then."""
    compiled = chain.compile_step(normed, tmp_path, (), "mesh=1")
    step, losses = normed([]), []
    feed = reference.batches(step, 0, 1)
    for _ in range(6):
        step.optimizer.zero_grad()
        row = []
        for _ in range(step.accumulate):
            loss = step.loss(step.model, **next(feed))
            step.scaler.scale(loss / step.accumulate).backward()
            row.append(loss.item())
        step.scaler.step(step.optimizer)
        step.scaler.update()
        losses.append([sum(row) / len(row)])
        if len(losses) == 1:
            first = chain.run_plan(compiled, 1, steps=1)
            compare.check_bits(first, reference.Trained(losses, reference.snapshot(step.model)))
            assert first.metrics[0]["skipped_steps"] == 1
            assert first.weights["1.num_batches_tracked"] == 2
    run = chain.run_plan(compiled, 1, steps=6)
    compare.check_bits(run, reference.Trained(losses, reference.snapshot(step.model)))


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


def test_a_logged_norm_is_without_the_scale(tmp_path: pathlib.Path) -> None:
    """A power of two changes no bit of the gradients."""
    norms = []
    for name, argv in (("plain", ()), ("scaled", ("--scale", "16"))):
        described = Training(FILE, argv, tuple(Call((u,)) for u in UNITS), steps=2)
        run = training.run(described, tmp_path / name, extra=["--log-grad-norm"])
        norms.append([row["grad_norm"] for row in run.metrics])
    assert norms[0] == norms[1]


def test_one_rank_and_three(tmp_path: pathlib.Path) -> None:
    """The collectives of a step: one maximum, or none."""
    for ranks, reductions in ((1, []), (3, [(1, 8)])):
        run = training.run(scaled(mesh=(ranks,)), tmp_path / str(ranks))
        rows = [r for r in run.summary["collectives"] if r["kind"] == "all-reduce"]
        assert [(r["calls_per_step"], r["bytes_per_step"]) for r in rows] == reductions


def test_a_loss_that_is_no_number_is_skipped_too(tmp_path: pathlib.Path) -> None:
    """Whatever `--non-finite` says of steps without a scaler."""
    described = scaled(mesh=(1,), steps=3)
    compiled = chain.compile_step(training.annotated(described), tmp_path, described.argv, "")
    data = load_file(compiled.data)
    first = next(iter(data))
    data[first][:] = float("nan")
    save_file(data, compiled.data)
    run = chain.run_plan(compiled, 1, steps=3, poison=False)
    assert "the loss of step 2 is NaN on rank 0; the scaler skips the step" in run.output
    start = load_file(compiled.weights)
    assert all(torch.equal(start[name], value) for name, value in run.weights.items())

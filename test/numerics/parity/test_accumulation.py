"""Tests that a step of several micro-batches is that of `(loss / K).backward()` in
PyTorch, bit for bit, and communicates gradients in the last of them alone."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import pytest

from support import chain, compare, reference, step_files
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training, annotated, load, run

HERE = pathlib.Path(__file__).parent
ODD = ("--width", "21", "--heads", "3", "--vocab", "61", "--length", "15")
K = 3


def gpt(reshard: bool | None = None, *argv: str, world: int = 2) -> Training:
    calls = tuple(Call((path,), reshard) for path in ("blocks.0", "blocks.1", ""))
    return Training(HERE / "models" / "gpt.py", (*ODD, *argv), calls, (world,), 6, K)


RESNET = Training(step_files.GENERALITY / "resnet.py", (), (Call(("",)),), (2,), 4, 2)

CONTRAST = Training(step_files.GENERALITY / "zoo.py", ("--model=scalar",), steps=3)


def collectives(result: chain.Result, steps: int) -> dict[str, dict[tuple[str, str], int]]:
    """Calls in one step, by program, and there by kind and region."""
    calls: dict[str, dict[tuple[str, str], int]] = {}
    for row in result.summary["collectives"]:
        of_program = calls.setdefault(row["program"], {})
        of_program[row["kind"], row["region"]] = row["calls"] // steps
    return calls


@pytest.mark.parametrize("reshard", (True, False))
def test_two_ranks_are_fsdp2(reshard: bool, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    training = gpt(reshard)
    finish = fsdp2.start(training)
    runs = [run(training, tmp_path / of, f"shard-layout={of}") for of in ("dim0", "flat")]
    trained = finish()
    for result in runs:
        compare.check_bits(result, trained)
    # The same calls as FSDP2's: in each micro-batch the gathers, in the last one
    # the reductions.
    calls = collectives(runs[0], training.steps)
    assert all(kind == "all-gather" for kind, _ in calls["accumulate"])
    assert sum(n for (kind, _), n in calls["step"].items() if kind == "reduce-scatter") == 3
    totals: dict[str, int] = {}
    for of_program in calls.values():
        for (kind, _), number in of_program.items():
            totals[kind] = totals.get(kind, 0) + number
    theirs: dict[str, int] = {}
    for (kind, _), number in trained.collectives.items():
        theirs[kind] = theirs.get(kind, 0) + number
    assert totals == theirs


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_each_micro_batch_may_reduce(layout: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    """As FSDP2 does by default. The sums are parts, and as small."""
    training = dataclasses.replace(gpt(), reduces_each=True)
    finish = fsdp2.start(training)
    result = run(training, tmp_path, f"shard-layout={layout} accumulate-reduce=each")
    compare.check_bits(result, finish())
    calls = collectives(result, training.steps)
    for program, micro_batches in (("accumulate", K - 1), ("step", 1)):
        assert calls[program]["reduce-scatter", ""] == 3 * micro_batches
    held = result.summary["rank_bytes"]
    assert held["accumulated_gradients"] == held["gradients"]


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_the_last_micro_batch_alone_sums_over_replicas(
    layout: str, tmp_path: pathlib.Path, fsdp2: Pool
) -> None:
    """As FSDP2 does under set_requires_all_reduce(False) until the last one: what is held is a
    rank's part of a sum over shards."""
    training = dataclasses.replace(gpt(), mesh=(2, 2), reduces_each=True)
    finish = fsdp2.start(training)
    result = run(training, tmp_path, f"shard-layout={layout} accumulate-reduce=each")
    trained = finish()
    compare.check_bits(result, trained)
    calls = collectives(result, training.steps)
    assert calls["accumulate"]["reduce-scatter", ""] == 3 * (K - 1)
    assert "all-reduce" not in {kind for kind, _ in calls["accumulate"]}
    assert (calls["step"]["reduce-scatter", ""], calls["step"]["all-reduce", ""]) == (3, 3)
    theirs = trained.collectives
    assert theirs["reduce-scatter", "backward"] == 3 * K
    assert theirs["all-reduce", "backward"] == 3
    held = result.summary["rank_bytes"]
    assert held["accumulated_gradients"] == held["gradients"]


@pytest.mark.parametrize("mesh, world", (("2", 2), ("2x2", 4)))
def test_a_number_is_summed_over_shards_in_each_and_over_replicas_in_the_last(
    mesh: str, world: int, tmp_path: pathlib.Path
) -> None:
    """A parameter without dimensions has no rows: under `dim0` every rank has it whole, and its
    gradient is summed over shards as well as over replicas."""

    def contrast(flags: list[str]) -> Any:
        step = load(CONTRAST)
        step.accumulate = 2
        return step

    options = f"mesh={mesh} shard-layout=dim0 accumulate-reduce=each"
    compiled = chain.compile_step(contrast, tmp_path, CONTRAST.argv, options)
    result = chain.run_plan(compiled, world, steps=CONTRAST.steps)
    compare.check_close(result, reference.averaged(contrast([]), world, CONTRAST.steps))
    runs = result.summary["program_runs"]
    assert runs == {"accumulate": CONTRAST.steps, "step": CONTRAST.steps}


@pytest.mark.parametrize("training", (gpt(None, "--dropout", "0.2"), RESNET), ids=("dropout", "bn"))
def test_one_rank_is_eager(training: Training, tmp_path: pathlib.Path) -> None:
    """Random numbers go on from one micro-batch to the next, and so do buffers."""
    compiled = chain.compile_step(lambda flags: load(training), tmp_path, training.argv, "mesh=1")
    result = chain.run_plan(compiled, 1, steps=training.steps, extra=["--rng=sequential"])
    compare.check_bits(result, reference.eager(load(training), training.steps))


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_more_ranks_sum_in_rank_order(layout: str, tmp_path: pathlib.Path) -> None:
    training = gpt(world=3)
    result = run(training, tmp_path, f"shard-layout={layout}")
    compare.check_bits(result, reference.averaged(load(training), 3, training.steps))


def test_micro_batches_draw_numbers_of_their_own(tmp_path: pathlib.Path) -> None:
    """Of one batch that repeats, micro-batches that drew the same numbers would
    have the same loss, as they do where nothing is drawn."""

    def first_loss(micro_batches: int, *argv: str) -> float:
        training = dataclasses.replace(gpt(None, *argv), accumulate=micro_batches)

        def repeating(flags: list[str]) -> Any:
            step = load(training)
            step.data = None
            return step

        folder = tmp_path / f"{micro_batches}{len(argv)}"
        compiled = chain.compile_step(repeating, folder, training.argv, "mesh=1")
        return chain.run_plan(compiled, 1, steps=1).losses[0]

    assert first_loss(2) == first_loss(1)
    assert first_loss(2, "--dropout", "0.5") != first_loss(1, "--dropout", "0.5")


def test_nothing_is_copied_for_the_sums(tmp_path: pathlib.Path) -> None:
    """A gradient is added where the sum is, and a flat one is sent from where
    its sum is computed. The sums are whole gradients: each rank's own."""
    result = run(gpt(), tmp_path, "shard-layout=flat", poison=False)
    whole = sum(p.numel() * 4 for p in load(gpt()).model.parameters())
    assert result.summary["rank_bytes"]["accumulated_gradients"] == whole
    assert result.summary["outputs_copied"]["count"] == 0
    assert result.summary["communication_copied_bytes"] == 0


def test_an_incomplete_step_is_left_out(tmp_path: pathlib.Path) -> None:
    """301 samples of the data set are 18 batches of 8 on 2 ranks: 3 steps of 5,
    and 3 batches and 13 samples too many."""
    training = Training(HERE / "models" / "classifier.py", accumulate=5)
    compiled = chain.compile_step(annotated(training), tmp_path)
    result = chain.run_plan(compiled, 2, steps=None, extra=["--epochs", "2"])
    assert [row["epoch"] for row in result.metrics] == [1, 1, 1, 2, 2, 2]
    left = "61 samples of each epoch are left out: they fill no step of 5 micro-batches of 16"
    assert left in result.output
    assert result.summary["program_runs"] == {"accumulate": 24, "step": 6}
    row = result.metrics[-1]
    assert row["samples_per_s"] == pytest.approx(80 / (row["step_ms"] / 1e3))

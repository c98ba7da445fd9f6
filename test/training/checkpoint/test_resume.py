"""Tests that a run which goes on from a checkpoint is the run that was not cut: weights, losses,
evaluations, dropout, statistics and the order of data, bit by bit."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any, Callable

import pytest

import fsdp_mlir
from training.checkpoint.runs import Runs, assert_same
from training.checkpoint.step import training_step
from support import chain

#: 6 steps are an epoch of two ranks, so both cuts are within one.
CUTS = (4, 9)
STEPS = 14

PIPELINES = {
    "mesh=2": 2,
    "mesh=2 shard-layout=flat": 2,
    "mesh=2 offload=all": 2,
    "mesh=2x2": 4,
}


@pytest.mark.quick
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_run_that_is_cut_is_the_whole_one(
    pipeline: str, lowered: Callable[[str], chain.Compiled], tmp_path: pathlib.Path
) -> None:
    compiled, ranks = lowered(pipeline), PIPELINES[pipeline]
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    whole = Runs(compiled, ranks, tmp_path / "whole")
    cut = Runs(compiled, ranks, tmp_path / "cut")
    whole.train("--steps", STEPS)
    for steps in CUTS:
        cut.train("--steps", steps, "--checkpoint-interval", 3)
    cut.train("--steps", STEPS)
    assert_same(whole, cut, rows=False)
    assert without_ends(cut.rows()) == without_ends(whole.rows())


def test_another_layout_goes_on_with_the_same_bits(
    lowered: Callable[[str], chain.Compiled], tmp_path: pathlib.Path
) -> None:
    """Of as many ranks: each leg of the run has another one, and trains."""
    legs = ("mesh=2", "mesh=2 shard-layout=flat", "mesh=2 offload=all")
    whole = Runs(lowered(legs[0]), 2, tmp_path / "whole")
    cut = Runs(lowered(legs[0]), 2, tmp_path / "cut")
    for runs in (whole, cut):
        runs.folder.mkdir()
    whole.train("--steps", STEPS)
    for pipeline, steps in zip(legs, (*CUTS, STEPS)):
        cut.compiled = lowered(pipeline)
        cut.train("--steps", steps)
    assert_same(whole, cut, rows=False)
    assert without_ends(cut.rows()) == without_ends(whole.rows())


def test_a_checkpoint_under_a_later_name_is_not_the_newest(
    lowered: Callable[[str], chain.Compiled], tmp_path: pathlib.Path
) -> None:
    """It would be so again behind each checkpoint that the run writes from there on."""
    runs = Runs(lowered("mesh=2"), 2, tmp_path)
    runs.train("--steps", 4, "--checkpoint-interval", 2)
    (runs.checkpoints / "step-00000004").rename(runs.checkpoints / "step-00000009")
    output = runs.train("--steps", 5)
    assert "of step 4 under another one's name; call it step-00000004 again" in output
    assert "resumed after step 2" in output


def of_each_rank(argv: list[str]) -> Any:
    """A step with a bias that is in no unit, which each rank trains by its own gradients."""
    step = training_step(argv)
    mesh = fsdp_mlir.init_device_mesh("cpu", (2,))
    with warnings.catch_warnings(action="ignore"):
        fsdp_mlir.fully_shard(step.model, mesh=mesh, ignored_params={step.model[5].bias})
    return step


def test_what_each_rank_trains_for_itself_goes_on(tmp_path: pathlib.Path) -> None:
    """Their values and the optimizer's state of them differ by rank, as the losses show."""
    compiled = chain.compile_step(of_each_rank, tmp_path, pipeline="")
    kept = tmp_path / "kept"
    flags = ["--checkpoint-dir", kept, "--checkpoint-interval", CUTS[0]]
    whole = chain.run_plan(compiled, 2, steps=CUTS[1], extra=flags)
    resumed = ["--resume", kept / f"step-{CUTS[0]:08d}"]
    rest = chain.run_plan(compiled, 2, steps=CUTS[1], extra=resumed)
    assert rest.losses == whole.losses[CUTS[0] :]


def without_ends(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without evaluations after the steps at which a run was cut: it evaluates where it ends."""
    return [row for row in rows if row["step"] not in CUTS or "loss" in row]


#: What ranks, and replicas of them, go on one after the other.
CIRCLE = {"2": 2, "3": 3, "4": 4, "2x2": 4, "2x2x2": 8, "8": 8, "2x4": 8, "1": 1}
LAYOUTS = (
    ("dim0", "flat"),
    ("flat", "dim0"),
    ("dim0 offload=all", "flat"),
    ("flat offload=optimizer", "dim0 offload=params"),
)


@pytest.mark.parametrize("layouts", LAYOUTS, ids=" then ".join)
def test_any_ranks_and_layouts_go_on_from_the_same_state(
    layouts: tuple[str, str], lowered: Callable[[str], chain.Compiled], tmp_path: pathlib.Path
) -> None:
    """From 1 rank over all of the circle and back, in layouts by turns. Nothing is trained on the way, so the
    weights and Adam's state come back as they were."""
    (tmp_path / "first").mkdir()
    first = Runs(lowered("mesh=1"), 1, tmp_path / "first")
    first.train("--steps", 5)
    source = first.checkpoints
    for turn, (mesh, ranks) in enumerate(CIRCLE.items()):
        folder = tmp_path / mesh
        folder.mkdir()
        layout = f" shard-layout={layouts[turn % 2]}" if mesh != "1" else ""
        runs = Runs(lowered(f"mesh={mesh}{layout}"), ranks, folder)
        command = runs.command("--steps", 5, threads=True)
        command[command.index("auto")] = str(source)
        assert "nothing is left to train" in chain.command(command).stdout
        source = runs.checkpoints
    step = "step-00000005"
    for path in sorted((first.checkpoints / step).glob("rank-*")):
        assert path.read_bytes() == (source / step / path.name).read_bytes()


def test_a_run_on_other_ranks_says_how_long_it_is(
    lowered: Callable[[str], chain.Compiled], tmp_path: pathlib.Path
) -> None:
    """4 steps of two ranks have read as much as 2 of four ranks, of which an epoch has 3."""
    Runs(lowered("mesh=2"), 2, tmp_path).train("--steps", 4)
    runs = Runs(lowered("mesh=2x2"), 4, tmp_path)
    assert "the run's 2 epochs are now 8 steps in all" in runs.train("--epochs", 2)
    assert runs.rows()[-1]["step"] == 8

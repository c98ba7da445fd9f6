"""Tests what becomes of a run whose loss is not finite: it goes on as PyTorch does, or leaves the
step out, or stops with the state before it."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from typing import Any, Callable

import pytest
import torch
from safetensors.torch import load_file, save_file

from training.checkpoint.runs import Runs, assert_same
from support import chain

#: The step of each epoch whose batch has a NaN, on rank 1.
BAD, EPOCH = 3, 6
Start = Callable[..., Runs]


@pytest.fixture
def start(lowered: Callable[[str], chain.Compiled], tmp_path: pathlib.Path) -> Start:
    """Runs of two ranks in folders of their own, whose data has a NaN or not."""

    def make(name: str, pipeline: str = "non-finite=skip", bad: bool = True, *argv: str) -> Runs:
        compiled = lowered(f"mesh=2 {pipeline}".strip(), *argv)
        (tmp_path / name).mkdir()
        if bad:
            data = load_file(compiled.data)
            # In stored order ranks take samples by turns.
            data["x"][(BAD - 1) * 8 + 1, 0] = float("nan")
            save_file(data, tmp_path / name / "data.safetensors")
            compiled = dataclasses.replace(compiled, data=tmp_path / name / "data.safetensors")
        return Runs(compiled, 2, tmp_path / name)

    return make


def train(runs: Runs, steps: int, *extra: Any) -> str:
    return runs.train("--no-shuffle", "--steps", steps, *extra)


def fail(runs: Runs, *extra: Any) -> str:
    """What a run says that is to end with status 1."""
    done = chain.command(runs.command("--no-shuffle", *extra, threads=True), check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr


def metrics(runs: Runs, name: str) -> list[Any]:
    rows = [json.loads(line) for line in runs.metrics.read_text().splitlines()]
    return [row.get(name) for row in rows if "step_ms" in row]


def is_finite(runs: Runs) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in load_file(runs.saved).values())


@pytest.mark.quick
@pytest.mark.parametrize("layout", ("", "shard-layout=flat", "offload=all"))
def test_a_plan_that_could_skip_gives_the_same_bits(layout: str, start: Start) -> None:
    plain, guarded = start("plain", layout, bad=False), start(
        "g", layout + " non-finite=skip", False
    )
    train(plain, 14)
    train(guarded, 14)
    assert_same(plain, guarded)
    assert set(metrics(guarded, "skipped_steps")) == {0}
    assert set(metrics(guarded, "nonfinite_steps")) == {None}


@pytest.mark.parametrize("layout", ("", "shard-layout=flat", "offload=all"))
def test_a_skipped_step_changes_nothing(layout: str, start: Start) -> None:
    """No parameter, no state of the optimizer, no statistics of BatchNorm, on no rank."""
    before, after = start("before", layout + " non-finite=skip"), start(
        "after", layout + " non-finite=skip"
    )
    train(before, BAD - 1)
    output = train(after, BAD)
    assert f"the loss of step {BAD} is not finite; its update is skipped, on all ranks" in output
    assert_same(before, after, rows=False)
    assert metrics(after, "loss")[-1] is None
    assert metrics(after, "skipped_steps") == [0] * (BAD - 1) + [1]
    assert metrics(after, "nonfinite_steps")[-1] == 1
    train(after, 2 * EPOCH)
    assert is_finite(after)
    assert metrics(after, "skipped_steps")[-1] == 2
    assert metrics(after, "loss").count(None) == 2


@pytest.mark.parametrize("layout", ("", "shard-layout=flat", "accumulate-reduce=each"))
@pytest.mark.parametrize("place", (0, 1))
def test_a_skipped_step_of_micro_batches_changes_nothing(
    place: int, layout: str, start: Start
) -> None:
    """Whichever micro-batch has the NaN, BatchNorm's statistics are those from before the first."""
    pipeline, steps = f"{layout} non-finite=skip".strip(), ("--accumulate", str(EPOCH // 2))
    before, after = (start(name, pipeline, False, *steps) for name in ("before", "after"))
    data = load_file(before.compiled.data)
    data["x"][(EPOCH // 2 + place) * 8 + 1, 0] = float("nan")
    save_file(data, after.folder / "data.safetensors")
    after.compiled = dataclasses.replace(after.compiled, data=after.folder / "data.safetensors")
    train(before, 1)
    assert "the loss of step 2 is not finite; its update is skipped" in train(after, 2)
    assert_same(before, after, rows=False)
    train(after, 4)
    assert is_finite(after) and metrics(after, "skipped_steps") == [0, 1, 1, 2]


def test_a_run_that_stops_can_go_on_behind_the_step(start: Start) -> None:
    """With the state of the run that leaves the step out, bit by bit."""
    skips, stops = start("skips"), start("stops")
    train(skips, 5)
    error = fail(stops, "--steps", 5, "--non-finite", "stop", "--checkpoint-interval", 2)
    assert error.count("error: ") == 1
    assert f"the loss of step {BAD} is NaN on rank 1; its update was left out" in error
    assert f"step-0000000{BAD} has the state" in error
    assert stops.steps() == [2, BAD]
    train(stops, 5, "--non-finite", "stop")
    assert_same(skips, stops)


@pytest.mark.provokes("FSDP-E0802")
def test_a_run_whose_plan_cannot_skip_says_so(start: Start) -> None:
    runs = start("runs", "")
    assert "compile it with the option non-finite=skip" in fail(runs, "--non-finite", "skip")
    error = fail(runs, "--steps", 5, "--non-finite", "stop", "--checkpoint-interval", 2)
    assert f"the loss of step {BAD} is NaN on rank 1, and its update is applied" in error
    assert runs.steps() == [2]
    skips = start("skips")
    assert "compile it without non-finite=skip" in fail(skips, "--non-finite", "continue")


def test_a_run_goes_on_as_in_pytorch_and_keeps_what_was_good(start: Start) -> None:
    """A checkpoint from before the first bad loss stays, however many follow, also when the run
    was resumed. And who begins from it, with a plan that skips, loses nothing."""
    runs = start("runs", "")
    often = ("--checkpoint-interval", 1, "--keep", 2)
    output = train(runs, 6, *often)
    notes = re.findall(r"note: the loss of step .*", output)
    # Of 4 such steps the first, the second and the fourth are told.
    assert len(notes) == 3
    assert notes[0].startswith(f"note: the loss of step {BAD} is not finite; training goes on")
    assert "so far there were 4 such steps" in notes[-1]
    assert metrics(runs, "nonfinite_steps") == [None, None, 1, 2, 3, 4]
    assert runs.steps() == [1, 5, 6]
    train(runs, 9, *often)
    assert runs.steps() == [1, 8, 9]
    assert not is_finite(runs)
    saved, whole = start("saved"), start("whole")
    train(whole, 5)
    good = runs.checkpoints / "step-00000001"
    command = saved.command("--no-shuffle", "--steps", 5, threads=True)
    command[command.index("auto")] = str(good)
    chain.command(command)
    assert_same(whole, saved, rows=False)

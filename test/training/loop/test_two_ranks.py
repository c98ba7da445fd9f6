"""Tests that a loop of one's own runs on two ranks, and that none of them waits in vain."""

from __future__ import annotations

import json
import pathlib
import re
import sys

import pytest
import torch
from safetensors.torch import load_file

from support import chain

from .conftest import Compile
from .ranks import Ranks
from .step import samples

HERE = pathlib.Path(__file__).parent
STEPS = 8


def check(found: list[dict], saved: pathlib.Path, expected: chain.Result) -> None:
    for name in ("loss", "accuracy"):
        rows = [row[name] for row in expected.metrics if "loss" in row]
        for rank in found:
            assert [row[name] for row in rank["rows"]] == rows
    weights = load_file(saved)
    assert weights.keys() == expected.weights.keys()
    for name, value in expected.weights.items():
        assert torch.equal(weights[name], value), name


@pytest.mark.quick
@pytest.mark.parametrize("comm", ("shm", "gloo"))
@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_two_ranks_have_the_bits_of_fsdp_run(
    layout: str, comm: str, compile_step: Compile, ranks: Ranks, tmp_path: pathlib.Path
) -> None:
    compiled = compile_step(f"mesh=2 shard-layout={layout}")
    outputs = tmp_path / "outputs.safetensors"
    extra = ["--eval-data", compiled.eval_data, "--eval-outputs", outputs]
    expected = chain.run_plan(compiled, 2, steps=STEPS, extra=extra)
    # In the data's order, whichever rank evaluated them; the last ones fill no batch.
    assert torch.equal(load_file(outputs)["label"], samples()["y"][:48])
    saved = tmp_path / "saved.safetensors"
    arguments = {
        "plan": str(compiled.plan),
        "weights": str(compiled.weights),
        "saved": str(saved),
        "steps": STEPS,
        "comm": comm,
        "rendezvous": ranks.meeting(),
    }
    found = ranks.call("train_by_keywords", arguments)
    transport = {"shm": "shared memory", "gloo": "Gloo"}[comm]
    assert [rank["transport"] for rank in found] == [transport] * 2
    check(found, saved, expected)


def test_torchrun_starts_a_loop(compile_step: Compile, tmp_path: pathlib.Path) -> None:
    """Two runs one after the other, and PyTorch's own process group beside them."""
    compiled = compile_step("mesh=2")
    expected = chain.run_plan(compiled, 2, steps=STEPS)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", HERE / "torchrun_loop.py"]
    command += [compiled.plan, compiled.weights, tmp_path, STEPS]
    chain.command(command, timeout=120)
    for name in ("first", "second"):
        found = torch.load(tmp_path / f"{name}.pt")
        check([found], tmp_path / f"{name}.safetensors", expected)


@pytest.mark.parametrize("comm", ("shm", "gloo"))
@pytest.mark.parametrize("how", ("batch", "call", "close", "exception", "death", "hang"))
def test_the_other_rank_is_told(
    how: str, comm: str, compile_step: Compile, ranks: Ranks, tmp_path: pathlib.Path
) -> None:
    compiled = compile_step("mesh=2")
    arguments = str(compiled.plan), str(compiled.weights), ranks.meeting(), comm, how
    ranks.begin("fail_on_rank_1", *arguments, str(tmp_path / "over"))
    (error, first), (_, second) = ranks.answers()
    assert not error, error
    (kind, said), (_, later), seconds = first
    assert kind == "RankFailure"
    assert seconds < 60  # and not the minutes of the deadline
    reasons = {
        "batch": "rank 1 failed: the batch has no 'y'; the plan reads x and y",
        "call": "rank 1 failed: a run is called with 2 arguments; give one batch",
        "close": "rank 1 failed: it closed the run after step 1",
        "exception": "rank 1 failed: ValueError: no more pictures (sample 5, calls.py:",
        "hang": "rank 1 has kept",
        "death": "rank 1 ended without a word",
    }
    assert said.startswith(reasons[how])
    assert later.startswith(f"the session is over: {said}")
    if how == "death":
        assert second is None
        record = tmp_path / "over-checkpoints" / "flight-rank0.json"
        assert said.endswith(f"; see {record}")
        assert json.loads(record.read_text())["not_arrived"] == [1]
        ranks.close()
        ranks.start()
    elif how == "hang":
        assert second[0][0] == "RankFailure"
    elif how == "call":
        assert second[0][1].startswith("the session is over: a run is called with 2 arguments")
    elif how == "batch":
        kind, words = second[0]
        assert kind == "BatchError"
        assert words.startswith(
            "the batch has no 'y'; the plan reads x and y; it comes from sample"
        )
    else:
        assert second[0] == ("RunError", "the run is closed; load the plan again")


# Of each fault in rank 1's loader: what that rank raises, and what they both say.
OF_BATCH = "worker 1, samples 4, 5, 6, 7"
LOADER_FAULTS = {
    "raises": ("ValueError", "the picture is broken", "(worker 1, sample 5, faults.py:"),
    # Its signal comes wherever the loop is.
    "killed": ("RuntimeError", "DataLoader worker (pid", f"({OF_BATCH}, "),
    "hangs": ("RuntimeError", "DataLoader timed out after 3", f"({OF_BATCH}, dataloader.py:"),
    "dtype": ("BatchError", "batch['x'] is float64, and the plan", f"it comes from {OF_BATCH}"),
    "nan": (
        *("RunError", "the loss of step 2 is NaN on rank 1, and its update is applied; rank 1: "),
        "batch['x'] has NaN in sample 1; it comes from worker 1, sample 5",
    ),
    "short": ("", "it closed the run after step 3", ""),
}


@pytest.mark.parametrize("fault", LOADER_FAULTS)
def test_a_fault_in_a_loader_names_rank_worker_and_sample(
    fault: str, compile_step: Compile, ranks: Ranks
) -> None:
    compiled = compile_step("mesh=2")
    (kind, said), (other_kind, other) = ranks.call(
        "train_from_loader", str(compiled.plan), str(compiled.weights), ranks.meeting(), fault
    )
    raised, words, where = LOADER_FAULTS[fault]
    assert other_kind == raised and (not raised or words in other)
    assert words in said and where in said
    assert kind == ("RunError" if fault == "nan" else "RankFailure")
    assert fault == "nan" or said.startswith("rank 1 failed: ")


def test_ranks_that_differ_are_refused(compile_step: Compile, ranks: Ranks) -> None:
    plans = [str(compile_step(f"mesh=2 shard-layout={name}").plan) for name in ("dim0", "flat")]
    found = ranks.call(
        "load_different", plans, str(compile_step("mesh=2").weights), ranks.meeting()
    )
    for kind, words in found:
        assert kind == "RunError"
        assert "rank 0 and rank 1 have a different plan" in words


def test_a_rank_that_cannot_load_tells_the_other(
    compile_step: Compile, ranks: Ranks, tmp_path: pathlib.Path
) -> None:
    compiled = compile_step("mesh=2")
    plans = [str(compiled.plan), str(tmp_path / "none.plan")]
    (kind, said), _ = ranks.call("load_different", plans, str(compiled.weights), ranks.meeting())
    assert kind == "RankFailure"
    assert re.match(r"rank 1 on .* failed before it met the others: .*none\.plan", said)


def test_a_call_of_one_rank_alone_is_refused(
    compile_step: Compile, ranks: Ranks, tmp_path: pathlib.Path
) -> None:
    compiled = compile_step("mesh=2")
    saved = tmp_path / "saved.safetensors"
    found = ranks.call(
        *("save_on_rank_0_alone", str(compiled.plan), str(compiled.weights)),
        *(ranks.meeting(), str(saved)),
    )
    words = [said for _, said in found]
    assert any("ranks do not do the same" in said for said in words)
    assert all("make on all ranks alike what docs/own-loop.md calls collective" in s for s in words)
    assert not saved.exists()


def test_ranks_leave_when_they_are_done(compile_step: Compile, ranks: Ranks) -> None:
    """Who is done first takes nothing from those who are not."""
    compiled = compile_step("mesh=2")
    for comm in ("shm", "gloo"):
        meetings = [ranks.meeting() for _ in range(10)]
        ranks.call("open_and_close", str(compiled.plan), str(compiled.weights), meetings, comm)


@pytest.mark.parametrize("comm, signals", (("shm", 1), ("gloo", 2)))
def test_an_interrupt_ends_a_wait(
    comm: str, signals: int, compile_step: Compile, ranks: Ranks, tmp_path: pathlib.Path
) -> None:
    compiled = compile_step("mesh=2")
    arguments = str(compiled.plan), str(compiled.weights), ranks.meeting(), comm, signals
    over = str(tmp_path / "over")
    (kind, _), (other, words) = ranks.call("sleep_on_rank_1", *arguments, over)
    assert kind == "KeyboardInterrupt"
    assert other == "RankFailure"
    assert words.startswith("rank 0 failed: it was interrupted")


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_the_model_is_watched_on_two_ranks(
    layout: str, ranks: Ranks, tmp_path: pathlib.Path
) -> None:
    """Tests that old values are told of also where a rank's piece of a parameter is no rows of
    it."""
    arguments = ranks.meeting(), str(tmp_path), f"shard-layout={layout}"
    for fine, read, written in ranks.call("said_of_the_model", *arguments):
        assert fine == []
        assert [text.partition(", and")[0] for text in read] == [
            "first.weight of the model is read"
        ]
        assert [text.partition(" after")[0] for text in written] == [
            "first.weight of the model was written to"
        ]

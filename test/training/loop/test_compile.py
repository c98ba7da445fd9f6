"""Tests that one call compiles and loads a step, from the driver's cache where it can."""

from __future__ import annotations

import itertools
import pathlib
from typing import Sequence

import pytest
import torch

import fsdp_mlir
from fsdp_mlir.driver import stages
from support import chain

from . import calls, step
from .conftest import STEP, Compile
from .ranks import Ranks

STEPS = 4


def losses_of(run: fsdp_mlir.Run) -> list[float]:
    with run:
        return [run(batch).item() for batch in itertools.islice(calls.batches(), STEPS)]


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages whose programs were run, not only to look at options."""
    ran: list[str] = []
    run = stages.Runner.run

    def counted(
        self: stages.Runner, stage: str, command: Sequence[object], *rest: object
    ) -> tuple[str, str]:
        if "--fsdp-check-options" not in command:
            ran.append(stage)
        return run(self, stage, command, *rest)

    monkeypatch.setattr(stages.Runner, "run", counted)
    return ran


@pytest.mark.quick
def test_a_step_is_compiled_once(
    programs: list[str], compile_step: Compile, tmp_path: pathlib.Path
) -> None:
    expected = chain.run_plan(compile_step("mesh=1"), 1, steps=STEPS).losses
    drawn = torch.get_rng_state()
    for ran in (["import", "shard", "plan"], []):
        torch.set_rng_state(drawn)
        made = step.training_step([])
        before = torch.get_rng_state()
        run = fsdp_mlir.compile(made, cache_dir=tmp_path)
        assert torch.equal(torch.get_rng_state(), before)
        assert losses_of(run) == expected
        assert programs == ran
        programs.clear()


def test_a_step_file_is_exported_once(
    programs: list[str], compile_step: Compile, tmp_path: pathlib.Path
) -> None:
    compiled = compile_step("mesh=1 shard-layout=flat", "--schedule")
    expected = chain.run_plan(compiled, 1, steps=STEPS).losses
    options = {"argv": ["--schedule"], "pipeline": "shard-layout=flat", "cache_dir": tmp_path / "c"}
    for ran in (["export", "import", "shard", "plan"], []):
        run = fsdp_mlir.compile(STEP, out=tmp_path / "out", **options)
        assert losses_of(run) == expected
        assert programs == ran
        programs.clear()
    assert (tmp_path / "out" / "step.plan").read_bytes() == compiled.plan.read_bytes()


def test_a_compiled_step_starts_from_given_weights(
    compile_step: Compile, tmp_path: pathlib.Path
) -> None:
    made = step.training_step([])
    other = {name: torch.full_like(value, 2) for name, value in made.model.state_dict().items()}
    torch.save(other, tmp_path / "other.pt")
    with fsdp_mlir.compile(made, weights=tmp_path / "other.pt", cache_dir=tmp_path) as run:
        assert all((value == 2).all() for value in run.state_dict().values())


@pytest.mark.provokes("FSDP-E0402")
def test_what_cannot_be_compiled_is_an_error(tmp_path: pathlib.Path) -> None:
    made = step.training_step([])
    for given, options, words in (
        (tmp_path / "none.py", {}, "none.py: no such step file"),
        (made, {"pipeline": "shard-layuot=flat"}, "shard-layout"),
        (made, {"pipeline": "mesh=2"}, "the plan's mesh has 2 ranks, this run 1"),
        (made, {"weights": tmp_path / "none"}, "none"),
        (made.model, {}, "step is .*; give a TrainingStep, or the path of a step file"),
        (made, {"pipeline": {"units": "auto"}}, "pipeline is dict; give the options as a text"),
    ):
        with pytest.raises(fsdp_mlir.RunError, match=words):
            fsdp_mlir.compile(given, cache_dir=tmp_path, **options)
    with pytest.raises(
        TypeError, match="compile has no option 'pipelin'; the nearest is 'pipeline'"
    ):
        fsdp_mlir.compile(made, pipelin="units=auto")


def test_two_ranks_compile_together(
    compile_step: Compile, ranks: Ranks, tmp_path: pathlib.Path
) -> None:
    expected = chain.run_plan(compile_step("mesh=2"), 2, steps=STEPS)
    arguments = f"tcp://127.0.0.1:{chain.free_port()}", str(tmp_path), STEPS
    rows = [row["loss"] for row in expected.metrics if "loss" in row]
    for_the_plan = 0.0  # which is not there before they have compiled
    assert ranks.call("compile_and_train", *arguments, "", for_the_plan) == [rows, rows]
    first, second = ranks.call("compile_badly", *(ranks.meeting(), str(tmp_path)))
    assert first[0] == "RunError"
    assert second == ("RankFailure", f"rank 0 failed: {first[1]}")

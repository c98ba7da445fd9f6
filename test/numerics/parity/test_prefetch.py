"""Tests that modules' own lists start gathers where FSDP2 starts them, also in units inside units
and called in another order than they are defined in; and that lists change no number."""

from __future__ import annotations

import dataclasses
import pathlib
import re

import pytest

from support import chain, compare, step_files, training
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training

GPT = pathlib.Path(__file__).parent / "models" / "gpt.py"
BLOCKS = GPT.with_name("blocks.py")
ZOO = step_files.GENERALITY / "zoo.py"
TRUE = {"reshard": True}

TRAININGS = {
    "far": Training(
        GPT,
        ("--layers", "4"),
        (
            Call(("blocks.0",), prefetch_forward=("blocks.1", "blocks.2", "blocks.3")),
            Call(("blocks.1",)),
            Call(("blocks.2",)),
            Call(("blocks.3",), prefetch_backward=("blocks.2", "blocks.1")),
            Call(("",), prefetch_forward=("blocks.0",), prefetch_backward=("blocks.3",)),
        ),
    ),
    "another order": Training(
        GPT,
        ("--layers", "3"),
        (
            Call(("blocks.0",), prefetch_forward=("blocks.2", "blocks.1")),
            Call(("blocks.1",)),
            Call(("blocks.2",), prefetch_backward=("blocks.0", "blocks.1")),
            Call(("",)),
        ),
    ),
    "nested": Training(
        GPT,
        (),
        (
            Call(("blocks.0.attention",)),
            Call(("blocks.0",), prefetch_forward=("blocks.1", "blocks.0.attention")),
            Call(("blocks.1.up",)),
            Call(("blocks.1",), prefetch_backward=("blocks.0.attention", "blocks.1.up")),
            Call(("",)),
        ),
    ),
    "disorder": Training(
        ZOO,
        ("--model", "disorder"),
        (
            Call(("middle.inner",), **TRUE),
            Call(("last",), prefetch_backward=("middle.inner",), **TRUE),
            Call(("middle",), prefetch_forward=("last", "middle.inner"), **TRUE),
            Call(("first",), prefetch_forward=("middle.inner", "middle"), **TRUE),
            Call(("",)),
        ),
    ),
}


def gathers(folder: pathlib.Path) -> list[tuple[str, str]]:
    """Units and regions, in the order in which a step starts their gathers."""
    text = chain.plan_text(folder / "step.plan")
    step = text[text.index("program step") :]
    return re.findall(r"= all_gather .*unit '(.*?)', (\w+)", step.split("\nprogram ")[0])


@pytest.mark.parametrize("name", TRAININGS)
def test_gathers_start_in_fsdp2s_order(name: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    task = TRAININGS[name]
    begun = fsdp2.start(task)
    for schedule in ("fsdp2", "overlap", "overlap shard-layout=flat"):
        run = training.run(task, tmp_path / schedule, f"schedule={schedule}")
        if schedule == "fsdp2":
            trained = begun()
        compare.check_bits(run, trained)
    ours, theirs = gathers(tmp_path / "fsdp2"), units_of(task, trained.gathers)
    # FSDP2 also gathers what backward does not read.
    assert ours and ours == [gather for gather in theirs if gather in ours]


def test_prefetching_what_is_gathered_already_does_nothing(
    tmp_path: pathlib.Path, fsdp2: Pool
) -> None:
    """FSDP2 gathers again what has been used, and what it names itself; here it is there already."""
    lists = (
        Call(("blocks.0",), prefetch_backward=("blocks.1",)),
        Call(("blocks.1",), prefetch_forward=("blocks.0", "blocks.1")),
        Call(("",)),
    )
    task = Training(GPT, (), lists)
    begun = fsdp2.start(task)
    run = training.run(task, tmp_path / "lists", "schedule=fsdp2")
    compare.check_bits(run, begun())
    plain = Training(GPT, (), training.units(("blocks.0", "blocks.1")))
    training.run(plain, tmp_path / "plain", "schedule=fsdp2")
    assert sorted(gathers(tmp_path / "lists")) == sorted(gathers(tmp_path / "plain"))


@pytest.mark.parametrize("schedule", ("overlap", "fsdp2"))
def test_what_neighbours_keep_is_gathered_behind_it(schedule: str, tmp_path: pathlib.Path) -> None:
    """A list may put a gather of forward behind a place where one of backward would fit."""
    lists = (
        Call(("blocks.0",), reshard=2, prefetch_forward=("blocks.1",)),
        Call(("blocks.1",), reshard=2, prefetch_forward=("blocks.2",)),
        Call(("blocks.2",), reshard=2),
        Call(("",), reshard=2),
    )
    plain = tuple(dataclasses.replace(call, prefetch_forward=()) for call in lists)
    runs = [
        training.run(Training(BLOCKS, (), calls, (4,)), tmp_path / str(i), f"schedule={schedule}")
        for i, calls in enumerate((lists, plain))
    ]
    assert runs[0].losses == runs[1].losses


def units_of(task: Training, gathers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """With the innermost unit around each parameter in its place."""
    paths = sorted((call.paths[0] for call in task.calls), key=len, reverse=True)
    return [
        (next(path for path in paths if not path or name.startswith(path + ".")), region)
        for name, region in gathers
    ]

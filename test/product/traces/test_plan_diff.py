"""Tests that --plan-diff says what two plans differ in, and nothing else."""

from __future__ import annotations

import re

import pytest

from support import chain
from product.traces.conftest import STEP_FILE, Plans, report

TRANSLATE = "fsdp-translate"


def diff(*arguments: object) -> str:
    return chain.command([chain.binary(TRANSLATE), "--plan-diff", *arguments]).stdout


@pytest.mark.quick
def test_a_plan_differs_in_nothing_from_itself(plans: Plans) -> None:
    plan = plans().plan
    assert re.fullmatch(r"the plans are the same: [0-9a-f]{64}\n", diff(plan, plan))


def test_a_later_gather_is_moved(plans: Plans) -> None:
    options = "mesh=2 cluster=h100x8 units=class:Block"
    before = plans(f"{options} prefetch-forward=2")
    after = plans(f"{options} prefetch-forward=0")
    text = diff(before.plan, after.plan)
    assert "option fsdp-pipeline prefetch-forward: 2 -> 0\n" in text
    assert re.search(r"~ all-gather of blocks.1 \(forward\): \d+ commands later, behind", text)
    assert not re.search(r"^ *[-+] ", text, re.MULTILINE), "the same commands"
    figures = [report(of, "h100x8")["programs"]["step"] for of in (before, after)]
    shown = " -> ".join(f"{1e6 * of['predicted_seconds']:.1f}" for of in figures)
    assert f"predicted on h100x8: {shown} us" in text
    exposed = " -> ".join(f"{1e6 * of['exposed_seconds']:.1f}" for of in figures)
    assert f"of it exposed: {exposed} us" in text


def test_another_layout_has_other_commands_and_bytes(plans: Plans) -> None:
    before, after = plans(), plans("mesh=2 shard-layout=flat")
    text = diff(before.plan, after.plan)
    figures = [report(of) for of in (before, after)]
    most = [f"{of['programs']['step']['live_bytes']:,}" for of in figures]
    assert f"most bytes in use: {most[0]} -> {most[1]} bytes" in text
    arenas = [f"{of['arenas'][0]['bytes']:,}" for of in figures]
    assert f"device arena: {arenas[0]} -> {arenas[1]} bytes" in text
    assert "- unpack blocks.0" in text
    assert "state " not in text, "the same states, elsewhere"
    # The other way round it is the reverse.
    assert "+ unpack blocks.0" in diff(after.plan, before.plan)


def test_programs_of_one_plan_alone(plans: Plans) -> None:
    text = diff(plans().plan, plans("mesh=2", "--accumulate", "3").plan)
    assert "micro-batches: 1 -> 3\n" in text
    assert "+ program accumulate\n" in text
    assert re.search(r"\+ state .*: float32 ", text), "sums of gradients"


@pytest.mark.provokes("FSDP-E0102")
def test_what_is_no_pair_of_plans_is_one_error(plans: Plans) -> None:
    plan = plans().plan
    for arguments, message in (
        ([plan], "--plan-diff compares two plans; give both"),
        ([plan, "none.plan"], "cannot open 'none.plan': No such file"),
        ([plan, STEP_FILE], "is not a plan"),
    ):
        done = chain.command([chain.binary(TRANSLATE), "--plan-diff", *arguments], check=False)
        assert done.returncode > 0
        assert message in done.stderr and done.stderr.count("error:") == 1

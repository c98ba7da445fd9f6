"""Tests that a plan which the checker accepts gives the same bits in whatever order its streams
and ranks run: 500 seeds, and 100,000 over 50 plans with `--long`.

All ranks run in one process, in turns that a seed chooses: some ranks and streams are slow, or
stand still as long as others go on; a transfer's bytes move in pieces at any time between its
start and its end; ranks fail. The executor is the real one. Half of the seeds run on its own
streams, the other half on streams that do all that the checker takes for possible. A run that
differs is a hole in the checker or in the executor."""

from __future__ import annotations

import itertools
import json
import pathlib
from typing import Any

import pytest

from robustness.simulation import plans
from support import chain

LONG_PLANS, LONG_SEEDS = 50, 2000


def simulate(compiled: chain.Compiled, seeds: str, *flags: object, timeout: float = 600) -> Any:
    """What fsdp-simulate prints; it fails where a seed ends otherwise than it should."""
    inputs = ["--weights", compiled.weights]
    inputs += ["--data", compiled.data] if compiled.data else []
    program = chain.binary("fsdp-simulate")
    command = [program, compiled.plan, *inputs, "--seeds", seeds, *flags]
    return json.loads(chain.command(command, timeout=timeout).stdout)


def check(compiled: chain.Compiled, seeds: int, timeout: float = 600) -> None:
    found = simulate(compiled, f"0:{seeds}", timeout=timeout)
    assert found["finite"], "outputs that are no numbers hide differences"
    assert found["same"] + found["reported"] == seeds
    assert found["same"] > seeds / 2
    assert found["reported"] > seeds / 20, "ranks are made to fail too late"


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> list[chain.Compiled]:
    return list(plans.chosen(tmp_path_factory.mktemp("simulation")))


@pytest.mark.quick
def test_every_order_gives_the_same_bits(chosen: list[chain.Compiled]) -> None:
    for compiled in chosen:
        check(compiled, 500 // len(chosen))


@pytest.mark.parametrize(
    "flags, why",
    [
        ("--steps 0", "--steps: '0' is no number from 1 on [FSDP-E0101]"),
        ("--seeds 7:x", "--seeds: 'x' is no number from 7 on [FSDP-E0101]"),
        ("--nonsense", "The following argument was not expected: --nonsense [FSDP-E0101]"),
        ("", "the plan has no value for weight and 1 more; pass --weights FILE [FSDP-E0907]"),
    ],
)
def test_a_mistake_is_one_error(flags: str, why: str) -> None:
    plan = plans.HERE.parent / "fuzz" / "corpus" / "plan" / "classifier"
    command = [chain.binary("fsdp-simulate"), plan, *flags.split()]
    done = chain.command(command, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {why}\n")


@pytest.mark.long
def test_many_orders_give_the_same_bits(tmp_path: pathlib.Path) -> None:
    for compiled in itertools.islice(plans.random_plans(tmp_path), LONG_PLANS):
        check(compiled, LONG_SEEDS, timeout=4 * 3600)


@pytest.mark.parametrize("broken", ("dropped wait", "late wait", "early update", "dropped record"))
def test_some_order_of_a_plan_with_a_race_has_other_bits(
    broken: str, chosen: list[chain.Compiled]
) -> None:
    """Mutants that the checker refuses, run all the same: some order gives other bits. In some
    mutants the order that is wrong is a rare one."""
    for compiled in chosen[:2]:
        found = simulate(compiled, "0:200", "--class", broken, "--mutants", 6)
        assert found["mutants"] == 6
        assert found["found"] >= 0.8 * found["mutants"], found["missed"]

"""Tests that a step whose sizes, places and ways depend on values is refused, or trains as eager
PyTorch does: some random steps of several kinds, and a thousand with `--long`."""

from __future__ import annotations

import pathlib
import sys

import pytest
from fuzz_run import is_wrong
from value_fuzz import FUZZ

from support import chain

# Of words found once, a batch that eager fails on, a refusal.
SEEDS = (300, 433, 93)


def test_steps_train_as_eager_or_are_refused(tmp_path: pathlib.Path) -> None:
    found = {seed: FUZZ.outcome(seed, tmp_path) for seed in SEEDS}
    assert not any(map(is_wrong, found.values())), found
    assert {"same", "both fail", "refused"} == {text.partition(":")[0] for text in found.values()}


@pytest.mark.long
def test_many_steps_train_as_eager_or_are_refused() -> None:
    fuzz = pathlib.Path(__file__).with_name("value_fuzz.py")
    print(chain.command([sys.executable, fuzz, "--seeds", "0:1000"], timeout=3 * 3600))

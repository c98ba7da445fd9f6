"""Tests that a step which keeps things in Python is refused, or trains as eager PyTorch does: five
random steps, and a thousand with `--long`."""

from __future__ import annotations

import pathlib
import sys

import pytest
from fuzz_run import is_wrong
from step_fuzz import FUZZ

from support import chain


def test_steps_train_as_eager_or_are_refused(tmp_path: pathlib.Path) -> None:
    found = {seed: FUZZ.outcome(seed, tmp_path) for seed in (0, 1, 2, 3, 44)}
    assert not any(map(is_wrong, found.values())), found
    assert "same" in found.values()


@pytest.mark.long
def test_many_steps_train_as_eager_or_are_refused() -> None:
    fuzz = pathlib.Path(__file__).with_name("step_fuzz.py")
    print(chain.command([sys.executable, fuzz, "--seeds", "5:1005"], timeout=2 * 3600))

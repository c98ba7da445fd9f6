"""Tests that a step which writes into tensors has eager PyTorch's bits: some random steps, and a
thousand with `--long`."""

from __future__ import annotations

import pathlib
import sys

import pytest
from write_fuzz import FUZZ

from support import chain

# With a function that gives what it writes: by itself, and in a checkpoint; a hook; and writes where
# checkpoints save.
SEEDS = (1, 276, 349)


def test_steps_have_eagers_bits(tmp_path: pathlib.Path) -> None:
    found = {seed: FUZZ.outcome(seed, tmp_path) for seed in SEEDS}
    assert set(found.values()) == {"same"}, found


@pytest.mark.long
def test_many_steps_have_eagers_bits_or_are_refused() -> None:
    fuzz = pathlib.Path(__file__).with_name("write_fuzz.py")
    print(chain.command([sys.executable, fuzz, "--seeds", "0:1000"], timeout=3 * 3600))

"""Tests that `units=auto` finds in models of the zoo what units.csv says: blocks, where there are
some."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import units  # noqa: E402


@pytest.mark.parametrize(
    "model",
    (
        pytest.param("scripts/nanogpt", marks=pytest.mark.quick),
        "scripts/mingpt",
        "scripts/experts",
        "torchvision/resnet18",
        "torchvision/vit_b_16",
        "transformers/causal/llama",
    ),
)
def test_units_are_those_of_the_table(model: str) -> None:
    assert units.row_of(model) == units.read_table()[model]


@pytest.mark.long
def test_all_models() -> None:
    assert {model: units.row_of(model) for model in units.MODELS} == units.read_table()

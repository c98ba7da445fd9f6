"""Tests that the layout of parameters does not change a bit: what trains with
rows of each parameter apart trains alike with a unit's elements in one range."""

from __future__ import annotations

import math
from typing import Any

import pytest

from support.layouts import CASES, check_same, train


def ranks_by_case() -> list[Any]:
    """Three ranks, whose shards are uneven, and one other number; all of them with `--long`."""
    return [
        pytest.param(
            name, world, marks=() if world in (3, (1, 2, 4)[place % 3]) else pytest.mark.long
        )
        for place, name in enumerate(CASES)
        for world in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize("name, world", ranks_by_case())
def test_flat_is_dim0(name: str, world: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rows = train(name, world, "shard-layout=dim0", tmp_path_factory)
    flat = train(name, world, "shard-layout=flat gather=copy", tmp_path_factory)
    check_same(flat, rows)
    # The same squares, summed in another order.
    for a, b in zip(flat.metrics, rows.metrics):
        assert math.isclose(a["grad_norm"], b["grad_norm"], rel_tol=1e-12)


@pytest.mark.quick
@pytest.mark.parametrize("reshard", ("true", "false"))
def test_resharding_a_flat_unit_does_not_change_bits(
    reshard: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    options = f"reshard-after-forward={reshard} shard-layout="
    rows = train("gpt-adamw", 2, options + "dim0", tmp_path_factory)
    flat = train("gpt-adamw", 2, options + "flat", tmp_path_factory)
    check_same(flat, rows)

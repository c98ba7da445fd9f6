"""Tests what moves for communication: nothing where ranks read each other's
parameters in place, with the same bits; else each byte once on each way."""

from __future__ import annotations

import pytest

from support.layouts import check_same, train

# Tied, frozen, reached by no loss, shared by modules, of two dtypes, of several
# learning rates; and with buffers.
NAMES = "gpt-adamw resnet tied frozen unreached shared mixed groups".split()
MAPPED = "shard-layout=flat gather=map streams=3"
Factory = pytest.TempPathFactory


@pytest.mark.parametrize("name", NAMES)
def test_mapping_changes_no_bit_and_moves_nothing(name: str, tmp_path_factory: Factory) -> None:
    rows = train(name, 2, "shard-layout=dim0", tmp_path_factory)
    mapped = train(name, 2, MAPPED, tmp_path_factory)
    check_same(mapped, rows)
    assert mapped.summary["arenas"]["window"] > 0
    assert mapped.summary["communication_copied_bytes"] == 0
    # Nothing has to be gathered anew for backward.
    regions = [(c["kind"], c["region"]) for c in mapped.summary["collectives"]]
    assert ("all-gather", "backward") not in regions


@pytest.mark.parametrize("world", (1, 3))
@pytest.mark.parametrize("reshard", ("true", "false"))
def test_any_number_of_ranks_can_be_mapped(
    world: int, reshard: str, tmp_path_factory: Factory
) -> None:
    rows = train("gpt-adamw", world, "shard-layout=dim0", tmp_path_factory)
    options = f"{MAPPED} reshard-after-forward={reshard}"
    check_same(train("gpt-adamw", world, options, tmp_path_factory), rows)


@pytest.mark.parametrize("comm", ("shm", "gloo"))
def test_processes_map_where_they_share_memory_and_copy_elsewhere(
    comm: str, tmp_path_factory: Factory
) -> None:
    rows = train("gpt-adamw", 2, "shard-layout=dim0", tmp_path_factory)
    extra = ["--log-grad-norm", "--comm", comm]
    mapped = train("gpt-adamw", 2, MAPPED, tmp_path_factory, threads=False, extra=extra)
    check_same(mapped, rows)


def test_rows_are_copied_in_one_pass_each_way(tmp_path_factory: Factory) -> None:
    ranks = 2
    run = train("gpt-adamw", ranks, "shard-layout=dim0", tmp_path_factory)
    # In before and out after a gather, in before a reduction; what that leaves
    # is updated where it arrives. Padding between members is not copied.
    passes = {"all-gather": 1 + ranks, "reduce-scatter": ranks}
    most = sum(passes[c["kind"]] * c["bytes"] for c in run.summary["collectives"])
    copied = run.summary["communication_copied_bytes"]
    assert 0.9 * most < copied <= most

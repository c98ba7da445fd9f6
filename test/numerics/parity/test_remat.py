"""Tests that a model with checkpoints of its own (torch.utils.checkpoint) trains as under FSDP2: the
same bits, with the random numbers of dropout repeated, and the same collectives."""

from __future__ import annotations

import pathlib

import pytest

from support import chain, compare, training
from support.fsdp2 import Pool
from support.training import Training

GPT = pathlib.Path(__file__).parent / "models" / "gpt.py"
BLOCKS = ("blocks.0", "blocks.1")
DROPOUT = ("--dropout", "0.2", "--checkpoint")


def counts(run: chain.Result) -> dict[tuple[str, str], int]:
    """Collectives of a step by kind and region."""
    return {
        (row["kind"], row["region"] or "backward"): row["calls_per_step"]
        for row in run.summary["collectives"]
    }


@pytest.mark.parametrize("layout", ("dim0", "flat"))
@pytest.mark.parametrize("kind", ("full", "selective"))
def test_checkpoints(kind: str, layout: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    described = Training(GPT, (*DROPOUT, kind), training.units(BLOCKS))
    expected = fsdp2.start(described)
    pipeline = f"shard-layout={layout} gather=copy"
    run = training.run(described, tmp_path, pipeline, extra=["--rng=sequential"])
    trained = expected()
    compare.check_bits(run, trained)
    assert counts(run) == trained.collectives

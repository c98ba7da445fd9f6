"""Tests that losses which train in turn do so on two ranks as under FSDP2, bit for bit."""

from __future__ import annotations

import pathlib

import pytest

from support import compare
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training, run

GAN = pathlib.Path(__file__).parent / "models" / "gan.py"
CALLS = (Call(("generator",)), Call(("discriminator",)))
TURNS = ("discriminator", "generator")


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_two_ranks_are_fsdp2(layout: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    training = Training(GAN, (), CALLS)
    finish = fsdp2.start(training)
    # PyTorch draws noise and dropout of all turns from one stream.
    result = run(training, tmp_path, f"shard-layout={layout}", extra=["--rng", "sequential"])
    compare.check_bits(result, finish())
    for row in result.metrics:
        assert row["loss"] == pytest.approx(sum(row[f"loss.{turn}"] for turn in TURNS), rel=1e-12)


def test_each_turn_clips_its_own_gradients(tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    training = Training(GAN, ("--max-norm", "0.3"), CALLS)
    finish = fsdp2.start(training)
    result = run(training, tmp_path, "shard-layout=flat", extra=["--rng", "sequential"])
    trained = finish()
    compare.check_close(result, trained)
    norms = [row[f"grad_norm.{turn}"] for row in result.metrics for turn in TURNS]
    assert norms == pytest.approx(trained.grad_norms, rel=1e-6)
    assert max(norms) > 0.3

"""Tests that optimizers have PyTorch's bits: groups with options of their own, each
implementation, schedules of rates, momentum and weight decay; as eager on one rank, and on two as FSDP2 or, of those
that FSDP2 does not know, as eager with averaged gradients."""

from __future__ import annotations

import pathlib
import runpy

import pytest

from support import chain, compare, reference
from support.fsdp2 import Pool
from support.training import Training, units

FILE = pathlib.Path(__file__).parent / "models" / "optimizers.py"
NAMES = tuple(runpy.run_path(str(FILE))["OPTIMIZERS"])
STEPS, CUT = 20, 7


@pytest.mark.parametrize("name", NAMES)
def test_an_optimizer_is_pytorchs(name: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    argv = ("--optimizer", name)
    known = name.startswith(("adam", "sgd")) and name != "adamax"
    expected = (
        fsdp2.start(Training(FILE, argv, units("024"), (2,), STEPS))
        if known
        else lambda: reference.averaged(reference.load_step(FILE, argv), 2, STEPS)
    )
    chain.export(FILE, tmp_path / "step.pt", argv)

    def run(ranks: int) -> chain.Result:
        folder = tmp_path / str(ranks)
        compiled = chain.lower(FILE, tmp_path / "step.pt", folder, argv, f"mesh={ranks}{layout}")
        if not follows:
            return chain.run_plan(compiled, ranks, steps=STEPS)
        flags = ("--checkpoint-dir", folder / "kept", "--checkpoint-interval", CUT)
        whole = chain.run_plan(compiled, ranks, steps=STEPS, extra=flags)
        resumed = ["--resume", folder / "kept" / f"step-{CUT:08d}"]
        rest = chain.run_plan(compiled, ranks, steps=STEPS, extra=resumed)
        assert rest.losses == whole.losses[CUT:]
        return whole

    # Numbers that follow from all steps before are in no checkpoint; matrices are, of any shape.
    follows = name.startswith(("asgd", "nadam", "schedule-free", "eigenbasis"))
    layout = " shard-layout=flat" if name.endswith("flat") else ""
    compare.check_bits(run(2), expected())
    compare.check_bits(run(1), reference.eager(reference.load_step(FILE, argv), STEPS))
    if name != "adam-fused-one-cycle":  # hold-scalars-invalid.mlir
        chain.lower(FILE, tmp_path / "step.pt", tmp_path / "gpu", argv, "mesh=2 device=cuda")

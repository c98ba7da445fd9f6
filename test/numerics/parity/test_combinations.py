"""Tests that features work together: combinations in which any two choices meet, any three with
`--long`, train as FSDP2 does, into the second epoch of a model whose shards are uneven."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import pytest
import torch

from support import compare, training
from support.covering import Row, covering
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training

FILE = pathlib.Path(__file__).parent / "models" / "blocks.py"
UNITS = ("blocks.0", "blocks.1", "blocks.2", "")
# One more than an epoch's, on the fewest samples per step. Optimizers are followed for longer
# (test_optimizers.py).
STEPS = 8
BF16 = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
BF16_INSIDE = {**BF16, "output_dtype": torch.float32}
ONE = ("blocks.2",)


@dataclasses.dataclass(frozen=True)
class Choice:
    """What one choice changes: the mesh, flags of the step file, arguments of
    fully_shard for some `units`, options of the pipeline."""

    mesh: tuple[int, ...] = ()
    argv: tuple[str, ...] = ()
    call: tuple[tuple[str, Any], ...] = ()
    units: tuple[str, ...] = UNITS
    pipeline: str = ""
    reduces_each: bool = False  # micro-batch
    # Whether both sides do the same operations in the same order, so that their
    # bits are the same; else how far losses may be, relative.
    same: bool = True
    loss: float = 1e-6


# The first of each axis is FSDP2's default. A new choice is one more entry.
AXES = {
    "mesh": {
        "2": Choice(mesh=(2,)),
        "4": Choice(mesh=(4,), same=False),
        # Each sum is one of two numbers.
        "2x2": Choice(mesh=(2, 2)),
        "2x1": Choice(mesh=(2, 1)),
    },
    "reshard": {
        "none": Choice(),
        "true": Choice(call=(("reshard", True),)),
        "false": Choice(call=(("reshard", False),)),
        "2": Choice(call=(("reshard", 2),)),
    },
    "lists": {
        "no": Choice(),
        "forward": Choice(
            call=(("prefetch_forward", ("blocks.1", "blocks.2")),), units=("blocks.0",)
        ),
        "backward": Choice(
            call=(("prefetch_backward", ("blocks.0", "blocks.1")),), units=("blocks.2",)
        ),
    },
    "precision": {
        "fp32": Choice(),
        "bf16": Choice(call=(("precision", BF16),), loss=1e-3),
        "bf16 of one": Choice(call=(("precision", BF16_INSIDE),), units=ONE, loss=1e-3),
    },
    "frozen": {"no": Choice(), "yes": Choice(argv=("--frozen",))},
    "divisor": {
        "ranks": Choice(),
        "3": Choice(call=(("divisor", 3.0),)),
        "3 of one": Choice(call=(("divisor", 3.0),), units=ONE),
    },
    "accumulate": {
        "1": Choice(),
        "3": Choice(argv=("--accumulate", "3")),
        "3 each": Choice(
            argv=("--accumulate", "3"), pipeline="accumulate-reduce=each", reduces_each=True
        ),
    },
    "clip": {
        "no": Choice(),
        "norm": Choice(argv=("--clip-norm", "0.5"), same=False),
        "value": Choice(argv=("--clip-value", "0.02")),
    },
    "remat": {
        "none": Choice(),
        "selective": Choice(pipeline="remat=selective"),
        "full": Choice(pipeline="remat=full"),
        "checkpoint": Choice(argv=("--checkpoint",)),
    },
    "offload": {
        "no": Choice(),
        "all": Choice(call=(("offload", True),)),
        "one": Choice(call=(("offload", True),), units=ONE),
        "params": Choice(pipeline="offload=params"),
        "optimizer": Choice(pipeline="offload=optimizer"),
    },
    "layout": {"dim0": Choice(), "flat": Choice(pipeline="shard-layout=flat")},
    "schedule": {"overlap": Choice(), "fsdp2": Choice(pipeline="schedule=fsdp2")},
}


def allowed(row: Row) -> bool:
    """Where ranks form no shards, FSDP2 on Gloo divides by a factor twice. It casts no inputs where
    a checkpoint recomputes. Two of two shards are all, as with True."""
    if row.get("mesh") == "2x1" and row.get("divisor", "ranks") != "ranks":
        return False
    if row.get("precision") == "bf16 of one" and row.get("remat") == "checkpoint":
        return False
    return row.get("reshard") != "2" or row.get("mesh", "4") == "4"


CHOICES = {axis: list(choices) for axis, choices in AXES.items()}
PAIRS, TRIPLES = (covering(CHOICES, strength, allowed) for strength in (2, 3))


def name(row: Row) -> str:
    return " ".join(f"{axis}:{value}" for axis, value in row.items())


def test_any_two_choices_occur_together_in_a_row() -> None:
    for a in AXES:
        for b in AXES:
            met = {(row[a], row[b]) for row in PAIRS}
            possible = {(i, j) for i in AXES[a] for j in AXES[b] if a != b or i == j}
            assert met == {(i, j) for i, j in possible if allowed({a: i, b: j})}


@pytest.mark.parametrize("row", PAIRS, ids=name)
def test_a_combination_is_fsdp2s(row: Row, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    _check(row, tmp_path, fsdp2)


@pytest.mark.long
@pytest.mark.parametrize("row", TRIPLES, ids=name)
def test_any_three_choices_are_fsdp2s(row: Row, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    _check(row, tmp_path, fsdp2)


def _check(row: Row, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    choices = [AXES[axis][value] for axis, value in row.items()]
    calls = tuple(
        Call((unit,), **dict(pair for c in choices if unit in c.units for pair in c.call))
        for unit in UNITS
    )
    described = Training(
        FILE,
        tuple(flag for choice in choices for flag in choice.argv),
        calls,
        next(choice.mesh for choice in choices if choice.mesh),
        STEPS,
        reduces_each=any(choice.reduces_each for choice in choices),
    )
    expected = fsdp2.start(described)
    pipeline = " ".join(filter(None, (choice.pipeline for choice in choices)))
    run = training.run(described, tmp_path, pipeline, extra=["--log-grad-norm"])
    trained = expected()
    if all(choice.same for choice in choices):
        compare.check_bits(run, trained)
    else:
        compare.check_close(run, trained, max(choice.loss for choice in choices))
    compare.check_norms(run, trained, max(choice.loss for choice in choices))

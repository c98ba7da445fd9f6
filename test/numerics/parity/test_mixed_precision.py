"""Tests that mixed precision is FSDP2's: the same bits on two ranks in every policy, in both
layouts, and half the bytes on the wire."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch

from support import chain, compare, step_files, training
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training

GPT = pathlib.Path(__file__).parent / "models" / "gpt.py"
ZOO = step_files.GENERALITY / "zoo.py"
BLOCKS = (("blocks.0",), ("blocks.1",), ("",))


def everywhere(**precision: Any) -> tuple[Call, ...]:
    """The same policy in every unit."""
    return tuple(Call(paths, precision=precision) for paths in BLOCKS)


BF16 = {"param_dtype": torch.bfloat16}
FP32 = {"param_dtype": torch.float32}
FP16 = {"param_dtype": torch.float16}
IN_FP32 = {"reduce_dtype": torch.float32}

POLICIES = {
    "bf16, reduced in fp32": everywhere(**BF16, **IN_FP32),
    "bf16, reduced in bf16": everywhere(**BF16),
    "fp16, reduced in fp16": everywhere(**FP16),
    "fp16, reduced in fp32, given out in fp32": (
        Call(("blocks.0",), precision={**FP16, **IN_FP32}),
        Call(("blocks.1",), precision={**FP16, **IN_FP32, "cast_forward_inputs": False}),
        Call(("",), precision={**FP16, **IN_FP32, "output_dtype": torch.float32}),
    ),
    "fp32, reduced in bf16": everywhere(reduce_dtype=torch.bfloat16),
    "each its own": (
        Call(("blocks.0",), precision={**FP32, "output_dtype": torch.bfloat16}),
        Call(("blocks.1",), reshard=False, precision={**BF16, **IN_FP32}),
        Call(("",), reshard=True, precision={**BF16, "output_dtype": torch.float32}),
    ),
    "a list": (
        Call(("blocks.0", "blocks.1"), precision={**FP32, "output_dtype": torch.bfloat16}),
        Call(("",), precision={**BF16, **IN_FP32}),
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_fsdp2s(name: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    described = Training(GPT, calls=POLICIES[name], steps=20)
    expected = fsdp2.start(described)
    run = training.run(described, tmp_path / "dim0")
    trained = expected()
    compare.check_bits(run, trained)
    flat = training.run(described, tmp_path / "flat", "shard-layout=flat")
    compare.check_bits(flat, trained)


# Frozen parameters, of the dtype of the others and of another, tied ones, modules used twice.
MODELS = {
    "frozen": ("0", "1", ""),
    "adapters": ("0", "1", ""),
    "tied": ("blocks.0", "blocks.1", ""),
    "twice": ("blocks.0", ""),
}
MIXED = {"in fp32": {**BF16, **IN_FP32}, "in bf16": BF16}


@pytest.mark.parametrize("precision", MIXED)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_fsdp2s(name: str, precision: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    # The loss is in float32.
    last = {"": {"output_dtype": torch.float32}}
    calls = tuple(
        Call((path,), precision={**MIXED[precision], **last.get(path, {})}) for path in MODELS[name]
    )
    described = Training(ZOO, ("--model", name), calls, steps=20)
    expected = fsdp2.start(described)
    run = training.run(described, tmp_path / "dim0")
    trained = expected()
    compare.check_bits(run, trained)
    flat = training.run(described, tmp_path / "flat", "shard-layout=flat")
    compare.check_bits(flat, trained)


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_half_the_bytes_are_gathered(layout: str, tmp_path: pathlib.Path) -> None:
    """Gathers move bf16 and gradients what they are reduced in; no whole parameter is in fp32, so
    that a step takes less memory."""
    options = f"shard-layout={layout} gather=copy bucket-cap-mib=none"
    full, reduced_full, half = (
        training.run(Training(GPT, calls=calls, steps=1), tmp_path / str(i), options)
        for i, calls in enumerate((everywhere(), everywhere(**BF16, **IN_FP32), everywhere(**BF16)))
    )
    # Padding to 64 bytes, in the smallest of a unit's dtypes, is in all.
    assert moved(reduced_full, "all-gather") == pytest.approx(moved(full, "all-gather") / 2, 0.05)
    assert moved(half, "all-gather") == pytest.approx(moved(full, "all-gather") / 2, 0.05)
    assert moved(reduced_full, "reduce-scatter") == pytest.approx(
        moved(full, "reduce-scatter"), 0.05
    )
    assert moved(half, "reduce-scatter") == pytest.approx(moved(full, "reduce-scatter") / 2, 0.05)
    held = [run.summary["rank_bytes"]["parameters"] for run in (half, full)]
    assert held[0] == pytest.approx(held[1], 0.05)
    assert half.summary["live_bytes"] < full.summary["live_bytes"]


def moved(run: chain.Result, kind: str) -> int:
    rows = run.summary["collectives"]
    return sum(row["bytes_per_step"] for row in rows if row["kind"] == kind)


def test_the_pipelines_reduce_dtype_is_a_default(tmp_path: pathlib.Path) -> None:
    """It says what a model leaves open, and gives way to what it says."""
    open_ones = Training(GPT, calls=everywhere(**BF16), steps=3)
    said = Training(GPT, calls=everywhere(**BF16, **IN_FP32), steps=3)
    wanted = training.run(said, tmp_path / "said")
    for described, option in ((open_ones, "float32"), (said, "bfloat16")):
        run = training.run(described, tmp_path / option, f"reduce-dtype={option}")
        assert run.losses == wanted.losses
        assert all(torch.equal(value, wanted.weights[n]) for n, value in run.weights.items())


@pytest.mark.parametrize("world", (1, 4))
def test_other_numbers_of_ranks(world: int, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    """One rank rounds gradients as several would, and four divide fp16's sums twice. The order of
    Gloo's own sums is another for four."""
    calls = everywhere(**FP16)
    described = Training(GPT, calls=calls, mesh=(world,), steps=4)
    expected = fsdp2.start(described)
    dim0 = training.run(described, tmp_path / "dim0")
    flat = training.run(described, tmp_path / "flat", "shard-layout=flat")
    assert dim0.losses == flat.losses
    assert all(torch.equal(value, flat.weights[n]) for n, value in dim0.weights.items())
    trained = expected()
    for found, wanted in zip(dim0.losses, trained.mean_losses, strict=True):
        assert abs(found - wanted) <= (1e-3 if world > 1 else 0) * abs(wanted)

"""Tests that mixed precision is FSDP2's: the same bits on two ranks in every policy, in both
layouts, and half the bytes on the wire."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch

from support import compare, training
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training

GPT = pathlib.Path(__file__).parent / "models" / "gpt.py"
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

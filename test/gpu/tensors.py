"""Safetensors files, read by PyTorch alone."""

from __future__ import annotations

import json
import pathlib

import torch

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def read(path: pathlib.Path) -> dict[str, torch.Tensor]:
    """The tensors of a file by name."""
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    tensors = {}
    for name, entry in json.loads(content[8:begin]).items():
        if name == "__metadata__":
            continue
        first, last = (begin + offset for offset in entry["data_offsets"])
        dtype = _DTYPES[entry["dtype"]]
        # An empty buffer cannot be taken over.
        values = (
            torch.frombuffer(bytearray(content[first:last]), dtype=dtype) if last > first else ()
        )
        tensors[name] = torch.as_tensor(values, dtype=dtype).reshape(entry["shape"])
    return tensors


def distance(value: torch.Tensor, expected: torch.Tensor) -> float:
    """The norm of the difference in units of the expected value's norm, or of that of a tensor whose
    elements are all 1e-4: what began at zero and has hardly moved is rounding."""
    difference = (value.double() - expected.double()).norm().item()
    return difference / max(expected.double().norm().item(), 1e-4 * expected.numel() ** 0.5, 1e-30)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor, in a row: NaNs are equal to themselves, and 0 is not -0."""
    return tensor.reshape(-1).view(torch.uint8)

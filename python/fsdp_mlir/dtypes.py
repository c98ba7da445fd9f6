"""PyTorch's dtypes by the names and numbers that files give them."""

from __future__ import annotations

import torch

from .errors import ExportError

# c10::ScalarType, the integers that TorchScript stores.
SCALAR_TYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
}

# What a safetensors header calls them.
SAFETENSORS = {
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.complex64: "C64",
    torch.bool: "BOOL",
}


def dtype_name(dtype: torch.dtype, what: str) -> str:
    """`float32` for torch.float32; an error that names `what` for one that archives lack."""
    if dtype not in SCALAR_TYPES:
        raise ExportError(
            f"{what} is {str(dtype).removeprefix('torch.')}, which an archive cannot hold"
        )
    return str(dtype).removeprefix("torch.")

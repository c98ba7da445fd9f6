"""PyTorch's dtypes by the names and numbers that files give them."""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch

from .errors import E, ExportError


class DType(NamedTuple):
    """A row of the table.

    Attributes:
        dtype: PyTorch's; its name, without `torch.`, is that of archives.
        kind: `Bool`, `Integer`, `Float`, `Complex`, or `StoredFloat`: kept and moved, but
            converted to a `Float` to be computed with.
        safetensors: what a safetensors header calls it; None where the format lacks it.
        scalar_type: its number in c10::ScalarType, which TorchScript stores.
    """

    dtype: torch.dtype
    kind: str
    safetensors: Optional[str]
    scalar_type: int

    @property
    def name(self) -> str:
        return short_name(self.dtype)


# The rows of runtime/plan/DTypes.def.
DTYPES = {
    row.dtype: row
    for row in (
        DType(torch.bool, "Bool", "BOOL", 11),
        DType(torch.uint8, "Integer", "U8", 0),
        DType(torch.int8, "Integer", "I8", 1),
        DType(torch.int16, "Integer", "I16", 2),
        DType(torch.int32, "Integer", "I32", 3),
        DType(torch.int64, "Integer", "I64", 4),
        DType(torch.float16, "Float", "F16", 5),
        DType(torch.bfloat16, "Float", "BF16", 15),
        DType(torch.float32, "Float", "F32", 6),
        DType(torch.float64, "Float", "F64", 7),
        DType(torch.complex64, "Complex", "C64", 9),
        DType(torch.complex128, "Complex", None, 10),
        DType(torch.float8_e4m3fn, "StoredFloat", "F8_E4M3", 24),
        DType(torch.float8_e5m2, "StoredFloat", "F8_E5M2", 23),
    )
}


def short_name(dtype: torch.dtype) -> str:
    """`float32` for torch.float32; of any dtype, also one that archives lack."""
    return str(dtype).removeprefix("torch.")


def dtype_name(dtype: torch.dtype, what: str) -> str:
    """`float32` for torch.float32; an error that names `what` for one that archives lack."""
    if dtype not in DTYPES:
        raise ExportError(E.DTYPE, f"{what} is {short_name(dtype)}, which an archive cannot hold")
    return DTYPES[dtype].name


def require_computed(dtype: torch.dtype, what: str) -> None:
    """Raises ExportError, which names `what`, for a dtype that is stored and not computed with, or
    for which there is no update."""
    if dtype.is_complex and dtype != torch.complex64:
        raise ExportError(
            E.DTYPE,
            f"{what} is {short_name(dtype)}, for which there is no update; make it "
            "complex64, or keep it as numbers, with a last dimension of 2, and read it by "
            "torch.view_as_complex in the forward",
        )
    if dtype in DTYPES and DTYPES[dtype].kind == "StoredFloat":
        raise ExportError(
            E.DTYPE,
            f"{what} is {DTYPES[dtype].name}, which is stored and not computed with: it has no "
            "sum over ranks and no update; use bfloat16, float16 or float32",
        )

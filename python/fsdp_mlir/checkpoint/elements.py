"""Elements of tensors by the names that manifests and safetensors files give to dtypes."""

from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np
import torch

from ..dtypes import DTYPES, DType
from .errors import E, CheckpointError

_BY_NAME = {row.name: row for row in DTYPES.values()}
NAMES = frozenset(_BY_NAME)
_BY_SAFETENSORS = {row.safetensors: row for row in DTYPES.values() if row.safetensors}


def dtype_row(name: str) -> DType:
    """The row of a dtype's name in a manifest, such as `float32`. Raises CheckpointError."""
    if name not in _BY_NAME:
        raise CheckpointError(E.CHECKPOINT_DAMAGED, f"the dtype {name} is unknown")
    return _BY_NAME[name]


def dtype_of_safetensors(name: Any) -> str:
    """The name in a manifest of what a safetensors header calls `F32`. Raises CheckpointError."""
    if not isinstance(name, str) or name not in _BY_SAFETENSORS:
        raise CheckpointError(E.CHECKPOINT_DAMAGED, f"the dtype {name} is unknown")
    return _BY_SAFETENSORS[name].name


def element_bytes(dtype: str) -> int:
    return dtype_row(dtype).dtype.itemsize


def byte_count(dtype: str, shape: Sequence[int]) -> int:
    return math.prod(shape) * element_bytes(dtype)


def as_tensor(data: np.ndarray, dtype: str, shape: Sequence[int]) -> torch.Tensor:
    """The row-major bytes `data` as a tensor over the same memory."""
    kind = dtype_row(dtype).dtype
    if not data.size:
        return torch.empty(list(shape), dtype=kind)
    return torch.from_numpy(data).view(kind).reshape(list(shape))


def describe(dtype: str, shape: Sequence[int]) -> str:
    """`float32[2, 3]`."""
    return f"{dtype}{list(shape)}"

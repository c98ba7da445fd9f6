"""Safetensors files, written a tensor or a part of one at a time."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Mapping, NamedTuple, Optional

import numpy as np
import torch

from ..dtypes import DTYPES, short_name
from ..errors import E, ExportError
from ..untrusted import make_file


class Entry(NamedTuple):
    """What a header says of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return torch.Size(self.shape).numel() * self.dtype.itemsize


def form_of(tensor: torch.Tensor) -> Optional[str]:
    """What a tensor is whose elements do not all lie in the CPU's memory; None: they do."""
    if tensor.is_nested:
        return "nested"
    if tensor.layout != torch.strided:
        return "sparse"
    if tensor.is_quantized:
        return "quantized"
    return "without values, on meta" if tensor.is_meta else None


def as_bytes(tensor: torch.Tensor) -> np.ndarray:
    """The elements of a tensor of the CPU, row-major, as bytes. Of one that is row-major no copy
    is made."""
    if tensor.numel() == 0:
        return np.empty(0, np.uint8)
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy()


def _header(entries: Mapping[str, Entry], metadata: Optional[Mapping[str, str]]) -> bytes:
    header: dict[str, object] = {}
    if metadata:
        header["__metadata__"] = dict(sorted(metadata.items()))
    offset = 0
    for name, entry in entries.items():
        row = DTYPES.get(entry.dtype)
        if row is None or row.safetensors is None:
            raise ExportError(
                E.DTYPE,
                f"{name} is {short_name(entry.dtype)}, which safetensors cannot hold; give its "
                "numbers, with a last dimension of 2 (torch.view_as_real), and read them by "
                "torch.view_as_complex",
            )
        header[name] = {
            "dtype": row.safetensors,
            "shape": list(entry.shape),
            "data_offsets": [offset, offset + entry.bytes],
        }
        offset += entry.bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


class TensorFile:
    """A new safetensors file at `path`, whose tensors come in any order.

    Raises ExportError for a dtype that the format lacks.

    Attributes:
        header: all that stands before the data.
        bytes: of the whole file.
    """

    def __init__(
        self,
        path: Path,
        entries: Mapping[str, Entry],
        metadata: Optional[Mapping[str, str]] = None,
    ) -> None:
        self.header = _header(entries, metadata)
        self._begins: dict[str, int] = {}
        self.bytes = len(self.header)
        for name, entry in entries.items():
            self._begins[name] = self.bytes
            self.bytes += entry.bytes
        self._path = path
        self._file = make_file(path)
        self._file.write(self.header)

    def write(self, name: str, data: np.ndarray, begin: int = 0) -> None:
        """Writes `data`, bytes, as the tensor's from its byte `begin` on."""
        self._open()
        self._file.seek(self._begins[name] + begin)
        self._file.write(data.data)

    def pause(self) -> None:
        """Closes the file until more is written. A process may have some hundred open."""
        self._file.close()

    def _open(self) -> None:
        if self._file.closed:
            flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.fdopen(os.open(self._path, flags), "wb")

    def close(self) -> None:
        """Brings the file to the disk."""
        self._open()
        self._file.truncate(self.bytes)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        self._file.close()

"""Where numbers lie in files: raw ones, NumPy's, safetensors and Arrow."""

from __future__ import annotations

import mmap
import os
import struct
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np
import torch

from . import arrow_files
from ..dtypes import DTYPES, short_name
from ..errors import E, ExportError
from ..untrusted import MOST_HEADER_BYTES, open_regular, parse_json

# Those of a plan, and what tokens are stored as.
FILE_DTYPES: dict[str, torch.dtype] = {
    **{row.name: row.dtype for row in DTYPES.values()},
    "uint16": torch.uint16,
    "uint32": torch.uint32,
}


class Range(NamedTuple):
    """Rows of numbers in a file, one after the other.

    Attributes:
        path: of the file, absolute.
        begin: the first row's byte.
        shape: the rows, and the shape of one.
    """

    path: str
    begin: int
    dtype: str
    shape: tuple[int, ...]


def open_numbers(file: Any, dtype: Any) -> Range:
    """The numbers of a mapped array, of a `.npy` file, or of a file that has nothing else, whose
    dtype is given.

    Raises:
        ExportError: it cannot be read as such, here and below.
    """
    if isinstance(file, np.ndarray):
        return _range_of(file)
    path = os.path.abspath(file)
    try:
        with open_regular(path) as opened:
            bytes_ = os.fstat(opened.fileno()).st_size
        if path.endswith(".npy"):
            return _range_of(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, RecursionError) as error:
        raise ExportError(
            E.DATA_FILE, f"{path}: {getattr(error, 'strerror', None) or error}"
        ) from error
    if dtype is None:
        raise ExportError(
            E.DATA_FILE, f"{path}: its numbers have no dtype; give dtype=, such as 'uint16'"
        )
    name = _file_dtype(dtype, path)
    width = FILE_DTYPES[name].itemsize
    if bytes_ % width:
        raise ExportError(
            E.DATA_FILE, f"{path} has {bytes_} bytes, which are no whole {name} numbers"
        )
    return Range(path, 0, name, (bytes_ // width,))


def _range_of(array: np.ndarray) -> Range:
    """Where a mapped file's numbers are; a slice of one has the offset of the whole."""
    mapped = getattr(array, "_mmap", None)
    name = getattr(array, "filename", None)
    if mapped is None or name is None:
        raise ExportError(
            E.STEP_ARGUMENT,
            "an array in memory has no file to be read from; give its file, np.memmap of it, or "
            "tensors",
        )
    if array.ndim == 0 or not array.flags.c_contiguous:
        raise ExportError(
            E.STEP_ARGUMENT, f"{name}: the array is no range of rows; give a contiguous one"
        )
    address = np.frombuffer(mapped, np.uint8).ctypes.data
    page = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    begin = page + array.ctypes.data - address
    return Range(os.path.abspath(name), begin, _file_dtype(array.dtype, name), array.shape)


def _file_dtype(dtype: Any, path: Any) -> str:
    if isinstance(dtype, torch.dtype):
        name = short_name(dtype)
    else:
        try:
            given = np.dtype(dtype)
        except TypeError:
            given = None
        if given is not None and given.byteorder == ">":
            raise ExportError(
                E.DATA_FILE, f"{path}: its numbers are big-endian; store them little-endian"
            )
        name = given.name if given is not None else str(dtype)
    if name not in FILE_DTYPES:
        raise ExportError(
            E.DATA_FILE, f"{path}: {name} numbers cannot be read; use {', '.join(FILE_DTYPES)}"
        )
    return name


_SAFETENSORS = {row.safetensors: row.name for row in DTYPES.values() if row.safetensors}
_SAFETENSORS |= {"U16": "uint16", "U32": "uint32"}


def parts_of(path: str, columns: Optional[Sequence[str]]) -> list[dict[str, Range]]:
    """The arrays of a file's parts by name: of Arrow, those of each record batch."""
    if not path.endswith(".arrow"):
        return [_tensors_of(path)]
    path = os.path.abspath(path)
    return [
        {
            name: Range(path, begin, _file_dtype(dtype, path), shape)
            for name, (begin, dtype, shape) in batch.items()
        }
        for batch in arrow_files.numbers_of(path, columns)
    ]


def _tensors_of(path: str) -> dict[str, Range]:
    """The tensors of a safetensors file by name; only its header is read."""
    path = os.path.abspath(path)
    try:
        with open_regular(path) as file:
            (length,) = struct.unpack("<Q", file.read(8))
            size = os.fstat(file.fileno()).st_size
            if length > min(size - 8, MOST_HEADER_BYTES):
                raise ValueError
            header = parse_json(file.read(length))
        return {
            name: _entry_of(path, 8 + length, size, entry)
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except OSError as error:
        raise ExportError(E.DATA_FILE, f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise ExportError(E.DATA_FILE, f"{path} is no safetensors file; write it again") from error


def _entry_of(path: str, data: int, size: int, entry: dict[str, Any]) -> Range:
    """What a header says of a tensor; `data` is where the first one begins. Raises ValueError
    where it says something else than a place in the file."""
    begin, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    dtype = entry["dtype"]
    numbers = (begin, end, *shape)
    if not isinstance(dtype, str) or any(type(n) is not int or n < 0 for n in numbers):
        raise ValueError
    if begin > end or data + end > size:
        raise ValueError
    return Range(path, data + begin, _SAFETENSORS.get(dtype, dtype), shape)


def tensor_of(header: dict[str, Range], name: str) -> Range:
    """The samples under a name."""
    if name not in header:
        path = next(iter(header.values())).path if header else "a shard"
        raise ExportError(
            E.DATA_MISSING, f"{path} has no tensor {name}; it has {', '.join(header) or 'none'}"
        )
    found = header[name]
    if found.dtype not in FILE_DTYPES:
        raise ExportError(
            E.DATA_FILE, f"{found.path}: {name} is {found.dtype}, which cannot be read"
        )
    if not found.shape:
        raise ExportError(E.DATA_FILE, f"{found.path}: {name} has no dimension 0 to hold samples")
    return found

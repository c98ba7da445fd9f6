"""Samples in files that stay where they are: `Windows` over rows, and `Shards` of samples."""

from __future__ import annotations

import glob
import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np
import torch

from ..errors import E, ExportError
from ..options import checked_options
from .ranges import FILE_DTYPES, Range, open_numbers, parts_of, tensor_of

Paths = Union[str, Path, np.ndarray, Sequence[Union[str, Path, np.ndarray]]]

ORDERS = ("shuffle", "sequential", "blocks", "random")


@dataclass
class Column:
    """What an input reads: rows as they are, or windows of `length` rows that begin at row
    `i * stride + offset`."""

    name: str
    ranges: list[Range]
    window: Optional[tuple[int, int, int]] = None  # offset, length, stride
    dtype: torch.dtype = field(init=False)
    row: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        first = self.ranges[0]
        for other in self.ranges:
            if (other.dtype, other.shape[1:]) != (first.dtype, first.shape[1:]):
                raise ExportError(
                    E.DATA_MISMATCH,
                    f"{self.name} is {first.dtype}{list(first.shape[1:])} in {first.path} and "
                    f"{other.dtype}{list(other.shape[1:])} in {other.path}; give files of one kind",
                )
        self.dtype = FILE_DTYPES[first.dtype]
        self.row = first.shape[1:]

    @property
    def sample(self) -> tuple[int, ...]:
        """The shape of a sample."""
        return self.row if self.window is None else (self.window[1], *self.row)

    def samples_in(self, part: int) -> int:
        rows = self.ranges[part].shape[0]
        if self.window is None:
            return rows
        offset, length, stride = self.window
        return max(0, (rows - offset - length) // stride + 1)

    def read(self, part: int, sample: int) -> torch.Tensor:
        of = self.ranges[part]
        offset, length, stride = self.window or (0, 1, 1)
        width = math.prod(self.row) * self.dtype.itemsize
        with open(of.path, "rb") as file:
            file.seek(of.begin + (sample * stride + offset) * width)
            data = bytearray(file.read(length * width))
        if len(data) != length * width:
            raise EOFError(f"cannot read {of.path}: it became shorter")
        return torch.frombuffer(data, dtype=self.dtype).reshape(self.sample)


class FileData(torch.utils.data.Dataset):
    """Samples in files, which the ranks read while they train. A map-style data set as well: sample
    `i` is a dict of tensors by input name, of the files' dtypes."""

    def __init__(self, columns: Sequence[Column], order: str, block: Optional[int]) -> None:
        what = type(self).__name__
        if order not in ORDERS:
            raise ExportError(
                E.STEP_ARGUMENT, f"{what}: order is {order!r}; give one of {', '.join(ORDERS)}"
            )
        if (block is not None) != (order == "blocks"):
            raise ExportError(
                E.STEP_ARGUMENT, f"{what}: block is the samples of a block, of order='blocks' alone"
            )
        if block is not None:
            _require_at_least(1, f"{what}: block", block)
        self.columns = {column.name: column for column in columns}
        self.order, self.block = order, block
        self._starts = [0]
        parts = {len(column.ranges) for column in columns}
        if len(parts) > 1:
            raise ExportError(E.DATA_MISMATCH, f"{what}: columns have different numbers of files")
        for part in range(parts.pop()):
            counts = {column.name: column.samples_in(part) for column in columns}
            if len(set(counts.values())) > 1 and any(c.window is None for c in columns):
                sizes = ", ".join(f"{name} {count}" for name, count in counts.items())
                path = columns[0].ranges[part].path
                raise ExportError(
                    E.DATA_MISMATCH, f"{what}: columns differ in samples at {path} ({sizes})"
                )
            self._starts.append(self._starts[-1] + min(counts.values()))

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        part = int(np.searchsorted(self._starts, index, side="right")) - 1
        return {
            name: column.read(part, index - self._starts[part])
            for name, column in self.columns.items()
        }

    def paths(self) -> list[str]:
        """The files, each once."""
        ranges = (r.path for column in self.columns.values() for r in column.ranges)
        return list(dict.fromkeys(ranges))

    def description(self) -> str:
        """What `fsdp-run --data` takes, as JSON (docs/data.md)."""
        paths = self.paths()
        number = {path: i for i, path in enumerate(paths)}
        order: dict[str, Any] = {"kind": self.order}
        if self.block is not None:
            order["block"] = self.block
        description = {
            "format": "fsdp-mlir data",
            "format_version": 1,
            "samples": len(self),
            "order": order,
            "files": [{"path": path, "bytes": os.stat(path).st_size} for path in paths],
            "columns": [
                {
                    "name": column.name,
                    "dtype": column.ranges[0].dtype,
                    "row": list(column.row),
                    "window": column.window
                    and dict(zip(("offset", "length", "stride"), column.window)),
                    "parts": [[number[r.path], r.begin, r.shape[0]] for r in column.ranges],
                }
                for column in self.columns.values()
            ],
        }
        return json.dumps(description, separators=(",", ":")) + "\n"


class Windows(FileData):
    """Windows over files of rows, such as tokens: `Windows("train.bin", dtype="uint16",
    length=1024, columns={"x": 0, "y": 1})` are nanoGPT's x, and y shifted by one.

    Window `i` begins at row `i * stride`; windows do not go over the end of a file.

    Args:
        files: a file, a folder of `.bin` or of `.npy` files, a list of files, or what `np.memmap`
            or `np.load(…, mmap_mode="r")` gave. The rows of a `.npy` file are its dimension 0.
        columns: by input name the offset of its first row in the window, or offset and length.
        length: rows of a column that gives no length of its own.
        stride: rows from a window's beginning to the next one's (`length`).
        dtype: of the numbers of `.bin` files.
        order: `"shuffle"`, as DistributedSampler; `"sequential"`; `"blocks"`: blocks of `block`
            windows are shuffled, and the windows within each; `"random"`: with replacement, as
            `torch.randint(len(windows), (batch,))` draws them from a generator with the run's seed
            and rank.

    Raises:
        ExportError: the files cannot be read, or the arguments do not fit them.
    """

    @checked_options
    def __init__(
        self,
        files: Paths,
        columns: Mapping[str, Union[int, tuple[int, int]]],
        length: Optional[int] = None,
        stride: Optional[int] = None,
        dtype: Any = None,
        order: str = "shuffle",
        block: Optional[int] = None,
    ) -> None:
        ranges = [open_numbers(file, dtype) for file in listed(files, (".bin", ".npy"))]
        if not columns:
            raise ExportError(
                E.STEP_ARGUMENT, 'Windows: columns is empty; give {"x": 0, "y": 1}, for example'
            )
        if length is not None:
            _require_at_least(1, "Windows: length", length)
        lengths = {}
        for name, where in columns.items():
            offset, own = where if isinstance(where, tuple) else (where, length)
            if own is None:
                raise ExportError(E.STEP_ARGUMENT, f"Windows: {name} has no length; give length=")
            _require_at_least(0, f"Windows: the offset of {name}", offset)
            _require_at_least(1, f"Windows: the length of {name}", own)
            lengths[name] = (offset, own)
        stride = max(own for _, own in lengths.values()) if stride is None else stride
        _require_at_least(1, "Windows: stride", stride)
        super().__init__(
            [Column(name, ranges, (*where, stride)) for name, where in lengths.items()],
            order,
            block,
        )


class Shards(FileData):
    """Samples in many files, which may be larger than memory: `Shards("folder", order="blocks",
    block=4096)`.

    Args:
        files: safetensors files, or a folder of some: each has a tensor for each column, whose
            dimension 0 is the sample. Or uncompressed Arrow files, whose columns are numbers or
            lists of one length (with pyarrow). Or by column the `.npy` files, a folder or a
            pattern.
        columns: which tensors, or columns, of such files (all of the first file's).
        order: as of `Windows`.
        block: as of `Windows`.

    Raises:
        ExportError: the files cannot be read, or do not fit each other.
    """

    @checked_options
    def __init__(
        self,
        files: Union[Paths, Mapping[str, Paths]],
        columns: Optional[Sequence[str]] = None,
        order: str = "shuffle",
        block: Optional[int] = None,
    ) -> None:
        ranges: dict[str, list[Range]]
        if isinstance(files, Mapping):
            ranges = {
                name: [open_numbers(file, None) for file in listed(paths, (".npy",))]
                for name, paths in files.items()
            }
        else:
            ranges = {}
            found = listed(files, (".safetensors", ".arrow"))
            headers = [part for path in found for part in parts_of(str(path), columns)]
            for name in columns or headers[0]:
                ranges[name] = [tensor_of(header, name) for header in headers]
        if not ranges:
            raise ExportError(E.DATA_MISSING, "Shards: there is no column")
        super().__init__([Column(name, parts) for name, parts in ranges.items()], order, block)


def _require_at_least(least: int, what: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ExportError(
            E.STEP_ARGUMENT, f"{what} is {value!r}; give a whole number from {least} on"
        )


def listed(files: Any, suffixes: tuple[str, ...]) -> list[Any]:
    """Paths and arrays; a folder's files by name.

    Raises:
        ExportError: there is none, or a folder has several kinds.
    """
    if isinstance(files, (list, tuple)):
        found = list(files)
    elif isinstance(files, np.ndarray) or not os.path.isdir(files):
        pattern = isinstance(files, (str, Path)) and glob.has_magic(str(files))
        found = sorted(glob.glob(str(files))) if pattern else [files]
    else:
        found = sorted(path for path in Path(files).iterdir() if path.suffix in suffixes)
        kinds = {path.suffix for path in found}
        if len(kinds) > 1:
            raise ExportError(
                E.DATA_MISMATCH, f"{files} has files of several kinds ({', '.join(sorted(kinds))})"
            )
    if not found:
        raise ExportError(E.DATA_MISSING, f"{files}: there is no {' or '.join(suffixes)} file")
    return found


def converts(stored: torch.dtype, read: torch.dtype) -> bool:
    """Whether ranks can read numbers as another dtype: each is kept, or rounded as floats are."""
    if stored == read:
        return True
    if read.is_complex or stored.is_complex or read == torch.bool:
        return False
    if read.is_floating_point:
        return True
    if stored.is_floating_point:
        return False
    if stored == torch.bool:
        return True
    return stored.itemsize < read.itemsize and (not stored.is_signed or read.is_signed)

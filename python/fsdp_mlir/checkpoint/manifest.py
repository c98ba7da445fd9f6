"""What the manifest of a checkpoint says: what it holds, and the hash of every byte."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Iterator, Optional

import numpy as np
import xxhash

from . import elements

# Chunks are hashed in blocks of so many bytes.
BLOCK_BYTES = 4 << 20
# More than any run has.
MOST_RANKS = 1 << 24
ROLES = ("parameter", "buffer", "optimizer")
# Before the name of a buffer that no state_dict() has.
LOST = "fsdp.buffer."


def hash_of(data: Any) -> str:
    """XXH3 of 64 bits, as sixteen hexadecimal digits."""
    return xxhash.xxh3_64_hexdigest(data)


def hashes_of(data: np.ndarray) -> list[str]:
    """The hash of each block of the bytes `data`."""
    return [
        hash_of(data[begin : begin + BLOCK_BYTES]) for begin in range(0, len(data), BLOCK_BYTES)
    ]


@dataclass(frozen=True)
class Chunk:
    """Elements of a tensor that lie in one file, one run after the other: `repeat` runs of
    `length` elements, the first from element `begin` of the row-major tensor on, `stride` apart.

    Attributes:
        file: the index of the file.
        rank: whose value it is, of a tensor that is per rank.
        hashes: of each block of the chunk's bytes.
    """

    file: int
    begin: int
    length: int
    repeat: int = 1
    stride: int = 0
    rank: int = 0
    hashes: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return self.length * self.repeat

    def starts(self) -> np.ndarray:
        """The first element of each run."""
        return self.begin + self.stride * np.arange(self.repeat, dtype=np.int64)


@dataclass(frozen=True)
class Tensor:
    """A tensor and where its elements are.

    Attributes:
        name: a parameter's or a persistent buffer's in `state_dict()`; `fsdp.buffer.NAME` of a
            buffer that is not there; `PARAMETER/KEY` of optimizer state.
        role: `parameter`, `buffer` or `optimizer`.
        parameter: of optimizer state, the parameter's name.
        aliases: further names of a tied one.
        per_rank: each rank has a value of its own, in one chunk.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[Chunk, ...] = ()
    parameter: str = ""
    aliases: tuple[str, ...] = ()
    per_rank: bool = False

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The bytes of one value of it."""
        return elements.byte_count(self.dtype, self.shape)

    @property
    def is_persistent(self) -> bool:
        """Whether `state_dict()` has it."""
        return self.role == "parameter" or (
            self.role == "buffer" and not self.name.startswith("fsdp.")
        )

    @property
    def key(self) -> str:
        """The name of an optimizer state among those of its parameter."""
        return self.name[len(self.parameter) + 1 :]

    def chunks_of(self, rank: int) -> tuple[Chunk, ...]:
        """The chunks that make up a rank's value."""
        if not self.per_rank:
            return self.chunks
        return tuple(chunk for chunk in self.chunks if chunk.rank == rank)

    def ranks(self) -> list[int]:
        """The ranks that have a value of their own; rank 0 alone where all share one."""
        return sorted({chunk.rank for chunk in self.chunks}) if self.per_rank else [0]


@dataclass(frozen=True)
class File:
    """A safetensors file: its name, its size, and size and hash of what stands before its data."""

    name: str
    bytes: int
    header_bytes: int
    header_hash: str


@dataclass(frozen=True)
class Loader:
    """The file that has the state of a rank's loader: its size, and the hash of all of it."""

    rank: int
    bytes: int
    hash: str


@dataclass(frozen=True)
class Run:
    """Where a run was: steps that are done; the epoch (from 0) of the next one and the samples of
    it that all ranks have read; samples of the data set (0: it has none); steps of the epoch and
    the sum of each rank's losses in them; metrics of the last step."""

    step: int
    seed: int = 0
    epoch: int = 0
    samples_in_epoch: int = 0
    samples: int = 0
    epoch_steps: int = 0
    epoch_losses: tuple[float, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """All that a checkpoint says of itself. `mesh` is the ranks of the run that wrote it, as names
    and sizes of dimensions; `plan` the digest of its plan, or "" where none wrote it; `loaders` the
    ranks whose loader left a state."""

    run: Run
    plan: str
    mesh: tuple[tuple[str, int], ...]
    files: tuple[File, ...]
    tensors: tuple[Tensor, ...]
    loaders: tuple[Loader, ...] = ()

    @property
    def ranks(self) -> int:
        return math.prod(size for _, size in self.mesh)

    def of_role(self, role: str) -> Iterator[Tensor]:
        return (tensor for tensor in self.tensors if tensor.role == role)

    def find(self, name: str) -> Optional[Tensor]:
        return next((tensor for tensor in self.tensors if tensor.name == name), None)


def is_covered(tensor: Tensor, rank: int) -> bool:
    """Whether a rank's chunks have each element of the tensor once."""
    chunks = tensor.chunks_of(rank)
    if sum(chunk.count for chunk in chunks) != tensor.count:
        return False
    if len(chunks) <= 1:
        return True
    starts = np.concatenate([chunk.starts() for chunk in chunks])
    ends = starts + np.concatenate([np.full(chunk.repeat, chunk.length) for chunk in chunks])
    order = np.argsort(starts)
    return bool(np.all(ends[order][:-1] == starts[order][1:]))

"""The manifest of a checkpoint, `checkpoint.json`: what it holds, and the hash of every byte.

The runtime reads and writes the same text (runtime/state/CheckpointFormat.cpp).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Iterator, Optional

import numpy as np
import xxhash

from . import elements
from .errors import E, CheckpointError, Damage

FORMAT = "fsdp-mlir checkpoint"
VERSION = 1
# Chunks are hashed in blocks of so many bytes.
BLOCK_BYTES = 4 << 20
ROLES = ("parameter", "buffer", "optimizer")
# Before the name of a buffer that no state_dict() has.
LOST = "fsdp.buffer."


def hash_of(data: Any) -> str:
    """XXH3 of 64 bits, as sixteen hexadecimal digits."""
    return xxhash.xxh3_64_hexdigest(data)


def hashes_of(data: np.ndarray) -> list[str]:
    """Of each block of the bytes `data`."""
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
        """Of one value of it."""
        return elements.byte_count(self.dtype, self.shape)

    @property
    def is_persistent(self) -> bool:
        """Whether `state_dict()` has it."""
        return self.role == "parameter" or (
            self.role == "buffer" and not self.name.startswith("fsdp.")
        )

    @property
    def key(self) -> str:
        """Of optimizer state: its name among those of its parameter."""
        return self.name[len(self.parameter) + 1 :]

    def chunks_of(self, rank: int) -> tuple[Chunk, ...]:
        """Those that make a rank's value."""
        if not self.per_rank:
            return self.chunks
        return tuple(chunk for chunk in self.chunks if chunk.rank == rank)

    def ranks(self) -> list[int]:
        """Those that have a value of their own; rank 0 where it is everybody's."""
        return sorted({chunk.rank for chunk in self.chunks}) if self.per_rank else [0]


@dataclass(frozen=True)
class File:
    """A safetensors file: its name, its size, and size and hash of what stands before its data."""

    name: str
    bytes: int
    header_bytes: int
    header_hash: str


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
    and sizes of dimensions; `plan` the digest of its plan, or "" where none wrote it."""

    run: Run
    plan: str
    mesh: tuple[tuple[str, int], ...]
    files: tuple[File, ...]
    tensors: tuple[Tensor, ...]

    @property
    def ranks(self) -> int:
        return math.prod(size for _, size in self.mesh)

    def of_role(self, role: str) -> Iterator[Tensor]:
        return (tensor for tensor in self.tensors if tensor.role == role)

    def find(self, name: str) -> Optional[Tensor]:
        return next((tensor for tensor in self.tensors if tensor.name == name), None)


def json_number(value: float) -> float | str:
    """Text for what JSON lacks: infinity and NaN."""
    return value if math.isfinite(value) else str(value)


def write_manifest(manifest: Manifest) -> bytes:
    """The text of the file. The hash of all that follows stands at its beginning."""
    run = vars(manifest.run) | {
        "epoch_losses": [json_number(loss) for loss in manifest.run.epoch_losses],
        "metrics": {name: json_number(value) for name, value in manifest.run.metrics.items()},
    }
    content = {
        "format": FORMAT,
        "version": VERSION,
        "run": run,
        "plan": manifest.plan,
        "mesh": [{"name": name, "size": size} for name, size in manifest.mesh],
        "hash_block_bytes": BLOCK_BYTES,
        "files": [vars(file) for file in manifest.files],
        "tensors": [_tensor_json(tensor) for tensor in manifest.tensors],
    }
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)[1:].encode() + b"\n"
    return _hash_field(text) + text


def _hash_field(text: bytes) -> bytes:
    return b'{"xxh3_64":"' + hash_of(text).encode() + b'",'


def _tensor_json(tensor: Tensor) -> dict[str, Any]:
    """What has its default is left out."""
    result: dict[str, Any] = {"name": tensor.name, "role": tensor.role}
    if tensor.parameter:
        result["parameter"] = tensor.parameter
    if tensor.aliases:
        result["aliases"] = tensor.aliases
    result |= {"dtype": tensor.dtype, "shape": tensor.shape}
    if tensor.per_rank:
        result["per_rank"] = True
    result["chunks"] = [_chunk_json(chunk) for chunk in tensor.chunks]
    return result


def _chunk_json(chunk: Chunk) -> dict[str, Any]:
    result: dict[str, Any] = {"file": chunk.file, "begin": chunk.begin, "length": chunk.length}
    if chunk.repeat != 1:
        result |= {"repeat": chunk.repeat, "stride": chunk.stride}
    if chunk.rank:
        result["rank"] = chunk.rank
    return result | {"hashes": chunk.hashes}


def read_manifest(text: bytes, name: str) -> Manifest:
    """The manifest that `text` is. `name` is what messages call it.

    Raises:
        Damage: the text is not what was written.
        CheckpointError: it is of another kind or version.
    """
    if not text.startswith(b'{"xxh3_64":"'):
        raise Damage(f"{name} is no manifest of a checkpoint, or its beginning is damaged")
    prefix = len(_hash_field(b""))
    if text[:prefix] != _hash_field(text[prefix:]):
        raise Damage(f"{name} is damaged: its hash is not that of its text")
    # Whoever wrote what follows meant it; it may still be of another version.
    try:
        return _manifest_of(json.loads(text))
    except CheckpointError as error:
        raise CheckpointError(error.kind, f"{name} cannot be read: {error.message}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(E.CHECKPOINT_DAMAGED, f"{name} cannot be read: {reason}") from error


def _manifest_of(content: dict[str, Any]) -> Manifest:
    if content["format"] != FORMAT:
        raise CheckpointError(E.CHECKPOINT_DAMAGED, "it is another kind of file")
    if content["version"] != VERSION:
        raise CheckpointError(
            E.CHECKPOINT_VERSION,
            f"it has version {content['version']}, this program reads version {VERSION}",
        )
    if content["hash_block_bytes"] != BLOCK_BYTES:
        raise CheckpointError(E.CHECKPOINT_DAMAGED, "its hashes are of blocks of another size")
    manifest = Manifest(
        run=_run_of(content["run"]),
        plan=_typed(content, "plan", str),
        mesh=tuple((_typed(d, "name", str), _typed(d, "size", int)) for d in content["mesh"]),
        files=tuple(
            File(
                name=_typed(file, "name", str),
                bytes=_typed(file, "bytes", int),
                header_bytes=_typed(file, "header_bytes", int),
                header_hash=_typed(file, "header_hash", str),
            )
            for file in content["files"]
        ),
        tensors=tuple(map(_tensor_of, content["tensors"])),
    )
    _check(manifest)
    return manifest


def _checked(value: Any, kind: type, what: str) -> Any:
    """`value`, of that type; a number of 64 bits."""
    if type(value) is not kind or (kind is int and not -(2**63) <= value < 2**63):
        raise CheckpointError(E.CHECKPOINT_DAMAGED, f"{what} is {json.dumps(value)}")
    return value


def _typed(content: dict[str, Any], key: str, kind: type, default: Any = None) -> Any:
    """A field, which may be left out where it has a default."""
    if default is not None and key not in content:
        return default
    return _checked(content[key], kind, key)


def _list(content: dict[str, Any], key: str, kind: type) -> tuple[Any, ...]:
    return tuple(_checked(member, kind, key) for member in content[key])


def _run_of(content: dict[str, Any]) -> Run:
    counts = ("step", "seed", "epoch", "samples_in_epoch", "samples", "epoch_steps")
    return Run(
        **{key: _typed(content, key, int) for key in counts},
        epoch_losses=tuple(map(float, content["epoch_losses"])),
        metrics={key: float(value) for key, value in content["metrics"].items()},
    )


def _chunk_of(content: dict[str, Any]) -> Chunk:
    return Chunk(
        file=_typed(content, "file", int),
        begin=_typed(content, "begin", int),
        length=_typed(content, "length", int),
        repeat=_typed(content, "repeat", int, 1),
        stride=_typed(content, "stride", int, 0),
        rank=_typed(content, "rank", int, 0),
        hashes=_list(content, "hashes", str),
    )


def _tensor_of(content: dict[str, Any]) -> Tensor:
    tensor = Tensor(
        name=_typed(content, "name", str),
        role=_typed(content, "role", str),
        dtype=_typed(content, "dtype", str),
        shape=_list(content, "shape", int),
        parameter=_typed(content, "parameter", str, ""),
        aliases=_list(content, "aliases", str) if "aliases" in content else (),
        per_rank=_typed(content, "per_rank", bool, False),
        chunks=tuple(map(_chunk_of, content["chunks"])),
    )
    if tensor.dtype not in elements.NAMES:
        raise CheckpointError(
            E.CHECKPOINT_DAMAGED, f"{tensor.name} has the unknown dtype {tensor.dtype}"
        )
    if min(tensor.shape, default=0) < 0:
        raise CheckpointError(
            E.CHECKPOINT_DAMAGED, f"{tensor.name} has the shape {list(tensor.shape)}"
        )
    if tensor.role not in ROLES:
        raise CheckpointError(
            E.CHECKPOINT_DAMAGED, f"{tensor.name} has the unknown role {tensor.role}"
        )
    return tensor


def _check(manifest: Manifest) -> None:
    """Raises CheckpointError where chunks are not all of a tensor, each element once."""
    for file in manifest.files:
        if "/" in file.name or not file.name:
            raise CheckpointError(
                E.CHECKPOINT_DAMAGED, f"its file {file.name!r} is not in the checkpoint's folder"
            )
    names = [tensor.name for tensor in manifest.tensors]
    if len({*names}) < len(names):
        raise CheckpointError(E.CHECKPOINT_DAMAGED, "it has two tensors of one name")
    for tensor in manifest.tensors:
        for chunk in tensor.chunks:
            if not _fits(chunk, tensor, len(manifest.files)):
                raise CheckpointError(
                    E.CHECKPOINT_DAMAGED, f"a chunk of {tensor.name} lies outside of it"
                )
        for rank in tensor.ranks():
            if not is_covered(tensor, rank):
                raise CheckpointError(
                    E.CHECKPOINT_DAMAGED,
                    f"the chunks of {tensor.name} are not all of it, each once",
                )


def _fits(chunk: Chunk, tensor: Tensor, files: int) -> bool:
    last = chunk.begin + chunk.stride * (chunk.repeat - 1)
    blocks = -(-chunk.count * elements.element_bytes(tensor.dtype) // BLOCK_BYTES)
    return (
        0 <= chunk.file < files
        and chunk.begin >= 0
        and chunk.length > 0
        and chunk.repeat > 0
        and (chunk.repeat == 1 or chunk.stride >= chunk.length)
        and last + chunk.length <= tensor.count
        and len(chunk.hashes) == blocks
    )


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

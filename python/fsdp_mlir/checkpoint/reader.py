"""Reads tensors of a checkpoint, whole, one at a time; what it gives has the hash that was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Iterator

import numpy as np
import torch

from ..untrusted import MOST_HEADER_BYTES, open_regular, parse_json, read_regular
from . import elements
from .errors import Damage
from .folder import MANIFEST, find_checkpoint, loader_name, step_name
from .manifest import BLOCK_BYTES, Chunk, File, Loader, Manifest, Tensor, hash_of
from .manifest_text import read_manifest

# A process may have some hundred files open.
_MAX_OPEN = 128
# As the runtime has it (runtime/state/CheckpointReader.cpp).
_MOST_MANIFEST_BYTES = 4 << 30


class ShardFile:
    """An open file of a checkpoint. Raises Damage where its size or header are not as written."""

    def __init__(self, folder: Path, described: File) -> None:
        self.path = folder / described.name
        try:
            self._file: BinaryIO = open_regular(self.path)
            size = self._file.seek(0, 2)
            self._file.seek(0)
            header = self._file.read(max(0, min(described.header_bytes, size, MOST_HEADER_BYTES)))
        except OSError as error:
            raise Damage(f"{self.path} cannot be read: {error.strerror}") from error
        if size != described.bytes:
            raise Damage(f"{self.path} is damaged: it has {size} bytes, not {described.bytes}")
        if hash_of(header) != described.header_hash:
            raise Damage(f"{self.path} is damaged: its header is not the one that was written")
        self._begin = len(header)
        try:
            self._entries: dict[str, Any] = dict(parse_json(header[8:]))
        except (ValueError, TypeError) as error:
            raise Damage(f"{self.path} has a header that is no table: {error}") from error

    def begin_of(self, tensor: Tensor, chunk: Chunk) -> int:
        """Where the chunk's bytes begin in the file."""
        size = chunk.count * elements.element_bytes(tensor.dtype)
        try:
            begin, end = map(int, self._entries[tensor.name]["data_offsets"])
        except (KeyError, TypeError, ValueError):
            begin, end = 0, -1
        if begin < 0 or end - begin != size:
            raise Damage(f"{self.path} has no such {tensor.name} as the manifest says")
        return self._begin + begin

    def blocks(self, tensor: Tensor, chunk: Chunk) -> Iterator[np.ndarray]:
        """The chunk's bytes, a hashed block at a time. Raises Damage that names the tensor."""
        begin = self.begin_of(tensor, chunk)
        size = chunk.count * elements.element_bytes(tensor.dtype)
        for number, wanted in enumerate(chunk.hashes):
            offset = number * BLOCK_BYTES
            self._file.seek(begin + offset)
            length = min(BLOCK_BYTES, size - offset)
            data = self._file.read(length)
            if len(data) != length or hash_of(data) != wanted:
                raise Damage(
                    f"{self.path} is damaged: {tensor.name} is not what was written, between its "
                    f"bytes {offset} and {offset + length}"
                )
            yield np.frombuffer(data, np.uint8)

    def close(self) -> None:
        self._file.close()


class Checkpoint:
    """The checkpoint in a folder.

    Attributes:
        path: the folder.
        manifest: what it says of itself.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._files: dict[int, ShardFile] = {}

    def file(self, index: int) -> ShardFile:
        if index not in self._files:
            if len(self._files) >= _MAX_OPEN:
                self._files.pop(next(iter(self._files))).close()
            self._files[index] = ShardFile(self.path, self.manifest.files[index])
        return self._files[index]

    def read(self, tensor: Tensor, rank: int = 0) -> np.ndarray:
        """The bytes of the whole, row-major tensor; a rank's own one where each has one. Takes the
        memory of the tensor and of one chunk of it. Raises Damage."""
        size = elements.element_bytes(tensor.dtype)
        whole = np.empty(tensor.bytes, np.uint8)
        for chunk in tensor.chunks_of(rank):
            if chunk.repeat == 1:
                local = whole[chunk.begin * size : (chunk.begin + chunk.length) * size]
            else:
                local = np.empty(chunk.count * size, np.uint8)
            offset = 0
            for block in self.file(chunk.file).blocks(tensor, chunk):
                local[offset : offset + len(block)] = block
                offset += len(block)
            if chunk.repeat != 1:
                runs = np.lib.stride_tricks.as_strided(
                    whole[chunk.begin * size :],
                    (chunk.repeat, chunk.length * size),
                    (chunk.stride * size, 1),
                )
                runs[:] = local.reshape(chunk.repeat, -1)
        return whole

    def tensor(self, tensor: Tensor, rank: int = 0) -> torch.Tensor:
        """Reads a whole tensor, in PyTorch's form."""
        return elements.as_tensor(self.read(tensor, rank), tensor.dtype, tensor.shape)

    def loader_state(self, loader: Loader) -> bytes:
        """The state that a rank's loader saved. Raises Damage."""
        path = self.path / loader_name(loader.rank)
        try:
            state = read_regular(path, loader.bytes)
        except OSError as error:
            raise Damage(f"{path} cannot be read: {error.strerror}") from error
        if len(state) != loader.bytes or hash_of(state) != loader.hash:
            raise Damage(f"{path} is damaged: it is not the state of the loader that was written")
        return state

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_checkpoint(path: Path | str) -> Checkpoint:
    """The checkpoint at `path`, or the newest one in it. Raises CheckpointError."""
    named = Path(path)
    folder = find_checkpoint(named)
    file = folder / MANIFEST
    try:
        text = read_regular(file, _MOST_MANIFEST_BYTES)
    except OSError as error:
        raise Damage(f"{file} cannot be read: {error.strerror}") from error
    try:
        checkpoint = Checkpoint(folder, read_manifest(text, str(file)))
    except Damage as damage:
        raise Damage(f"{damage.message}; take the checkpoint before it") from damage
    if folder != named:
        _require_own_name(checkpoint)
    return checkpoint


def _require_own_name(checkpoint: Checkpoint) -> None:
    """Raises Damage where the folder has another step's name, as the runtime's requireOwnName() does."""
    step = checkpoint.manifest.run.step
    own = step_name(step)
    if checkpoint.path.name != own:
        raise Damage(
            f"{checkpoint.path} is the checkpoint of step {step} under another one's name; call it "
            f"{own} again, or name it to take it"
        )

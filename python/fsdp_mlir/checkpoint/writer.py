"""Writes a checkpoint a tensor at a time, cut over as many files as there are to be."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Callable, Mapping, Sequence

import numpy as np

from ..data.tensor_file import Entry, TensorFile
from .elements import dtype_row, element_bytes
from .folder import MANIFEST, loader_name, new_checkpoint, shard_name, step_name
from .manifest import Chunk, File, Loader, Manifest, Run, Tensor, hash_of, hashes_of
from .manifest_text import write_manifest

# A process may have some hundred files open.
_MOST_OPEN = 128


def cut_rows(shape: Sequence[int], files: int) -> list[Chunk]:
    """Rows of a tensor for each file, as many as FSDP2 gives to each rank: `files` chunks or
    fewer. What has no dimension is the first one's, and what has no element is nobody's."""
    rows, width = (shape[0], int(np.prod(shape[1:]))) if shape else (1, 1)
    each = -(-rows // files)
    chunks = []
    for file in range(min(files, -(-rows // each)) if rows else 0):
        begin, end = min(rows, file * each), min(rows, (file + 1) * each)
        if begin < end and width:
            chunks.append(Chunk(file=file, begin=begin * width, length=(end - begin) * width))
    return chunks


def _laid_out(tensor: Tensor, files: int) -> Tensor:
    """The tensor with chunks for so many files."""
    if not tensor.per_rank:
        return replace(tensor, chunks=tuple(cut_rows(tensor.shape, files)))
    chunks = tuple(Chunk(rank, 0, tensor.count, rank=rank) for rank in tensor.ranks())
    return replace(tensor, chunks=chunks)


def _entries_of_files(tensors: Sequence[Tensor], files: int) -> list[dict[str, Entry]]:
    """The entries of each file's header. Wide types come first, which keeps every tensor aligned."""
    entries: list[dict[str, Entry]] = [{} for _ in range(files)]
    for tensor in sorted(tensors, key=lambda tensor: -element_bytes(tensor.dtype)):
        dtype = dtype_row(tensor.dtype).dtype
        for chunk in tensor.chunks:
            rows = chunk.length * tensor.shape[0] // tensor.count if tensor.shape else 0
            shape = (rows, *tensor.shape[1:]) if tensor.shape else ()
            entries[chunk.file][tensor.name] = Entry(dtype, shape)
    return entries


def write_checkpoint(
    root: Path,
    run: Run,
    tensors: Sequence[Tensor],
    read: Callable[[Tensor, int], np.ndarray],
    files: int = 1,
    mesh: Sequence[tuple[str, int]] = (("shard", 1),),
    plan: str = "",
    loaders: Mapping[int, bytes] = MappingProxyType({}),
) -> Path:
    """Writes a checkpoint into the folder `root`, beside those that are there. One tensor at a time
    is in memory.

    Args:
        tensors: what is to be written; their chunks only say whose values there are of one that is
            per rank.
        files: how many at least. A file has one value of a tensor, so that there is one for each
            rank that has values of its own.
        read: the bytes of a tensor, whole and row-major; of a rank.
        loaders: by rank, the state of its loader.

    Returns its folder.
    """
    laid_out = [_laid_out(tensor, files) for tensor in tensors]
    files = max([files, *(chunk.file + 1 for tensor in laid_out for chunk in tensor.chunks)])
    with new_checkpoint(root, run.step) as folder:
        described, finished = [], []
        with contextlib.ExitStack() as stack:
            shards = []
            for file, entries in enumerate(_entries_of_files(laid_out, files)):
                path = folder / shard_name(file)
                shards.append(stack.enter_context(TensorFile(path, entries, {"format": "pt"})))
                if files > _MOST_OPEN:
                    shards[-1].pause()
            for tensor in laid_out:
                finished.append(_write(tensor, shards, read))
            for file, shard in enumerate(shards):
                header = shard.header
                described.append(File(shard_name(file), shard.bytes, len(header), hash_of(header)))
        for rank, state in loaders.items():
            _write_file(folder / loader_name(rank), state)
        states = tuple(Loader(rank, len(s), hash_of(s)) for rank, s in loaders.items())
        manifest = Manifest(run, plan, tuple(mesh), tuple(described), tuple(finished), states)
        _write_file(folder / MANIFEST, write_manifest(manifest))
    return root / step_name(run.step)


def _write_file(path: Path, content: bytes) -> None:
    """Writes a file, and flushes it to the disk."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _write(
    tensor: Tensor, shards: list[TensorFile], read: Callable[[Tensor, int], np.ndarray]
) -> Tensor:
    """The tensor with the hashes of what was written."""
    size = element_bytes(tensor.dtype)
    chunks = []
    for rank in tensor.ranks():
        whole = read(tensor, rank)
        for chunk in tensor.chunks_of(rank):
            part = whole[chunk.begin * size : (chunk.begin + chunk.count) * size]
            shards[chunk.file].write(tensor.name, part)
            if len(shards) > _MOST_OPEN:
                shards[chunk.file].pause()
            chunks.append(replace(chunk, hashes=tuple(hashes_of(part))))
    return replace(tensor, chunks=tuple(chunks))

"""Writes parameters and buffers as Hugging Face's libraries write a model."""

from __future__ import annotations

import json
from pathlib import Path

from ..data.tensor_file import Entry, TensorFile
from .elements import dtype_row
from .folder import unfinished
from .manifest import Tensor
from .reader import Checkpoint


def export_safetensors(
    checkpoint: Checkpoint, target: Path, max_bytes: int, with_optimizer: bool
) -> None:
    """Writes what `state_dict()` has to `target`: one file where its name ends in .safetensors;
    else a folder of files of at most `max_bytes` (or one tensor) each, with an index where they are
    several. A tied tensor is in it under its first name, and its other names are metadata. Of a
    tensor that each rank has of its own, rank 0's is taken.

    Optimizer state, where it is wanted, is in the folder too, in files that libraries of models
    leave alone.
    """
    manifest = checkpoint.manifest
    model = [tensor for tensor in manifest.tensors if tensor.is_persistent]
    with unfinished(target) as partial:
        if target.suffix == ".safetensors":
            others = list(manifest.of_role("optimizer")) if with_optimizer else []
            _write(checkpoint, model + others, partial)
            return
        partial.mkdir()
        _write_folder(checkpoint, model, partial, "model", max_bytes)
        if with_optimizer:
            others = list(manifest.of_role("optimizer"))
            _write_folder(checkpoint, others, partial, "optimizer", max_bytes)


def _write_folder(
    checkpoint: Checkpoint, tensors: list[Tensor], folder: Path, stem: str, max_bytes: int
) -> None:
    shards = _shards(tensors, max_bytes)
    if len(shards) == 1:
        _write(checkpoint, tensors, folder / f"{stem}.safetensors")
        return
    places = {}
    for number, members in enumerate(shards, 1):
        name = f"{stem}-{number:05d}-of-{len(shards):05d}.safetensors"
        _write(checkpoint, members, folder / name)
        places |= {tensor.name: name for tensor in members}
    size = sum(tensor.bytes for tensor in tensors)
    index = {"metadata": {"total_size": size}, "weight_map": places}
    text = json.dumps(index, indent=2) + "\n"
    (folder / f"{stem}.safetensors.index.json").write_text(text)


def _shards(tensors: list[Tensor], max_bytes: int) -> list[list[Tensor]]:
    """The tensors of each file, in order: as many as fit, but at least one."""
    shards: list[list[Tensor]] = [[]]
    for tensor in tensors:
        if shards[-1] and sum(t.bytes for t in shards[-1]) + tensor.bytes > max_bytes:
            shards.append([])
        shards[-1].append(tensor)
    return shards


def _write(checkpoint: Checkpoint, tensors: list[Tensor], path: Path) -> None:
    entries = {t.name: Entry(dtype_row(t.dtype).dtype, t.shape) for t in tensors}
    aliases = {alias: tensor.name for tensor in tensors for alias in tensor.aliases}
    with TensorFile(path, entries, {**aliases, "format": "pt"}) as file:
        for tensor in tensors:
            file.write(tensor.name, checkpoint.read(tensor))

"""What others wrote: tensors and values by name, each read when it is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from ..archive.start_weights import WeightsError, tensor_reads
from ..archive.torch_file import load_plain
from ..untrusted import require_regular
from .dcp_alone import alone
from .errors import E, CheckpointError
from .folder import MANIFEST
from .reader import open_checkpoint

# By the names that torch.distributed.checkpoint gives: keys of nested dictionaries, with dots.
Source = dict[str, Callable[[], Any]]


def open_source(path: Path, kind: str) -> Source:
    """What is in `path`, of the kind `safetensors`, `dcp` or `torch`.

    Raises:
        CheckpointError: it is not there, or of another kind.
    """
    if not path.exists():
        raise CheckpointError(E.IMPORT_SOURCE, f"{path} is not there; name what is to be imported")
    try:
        if kind == "dcp":
            return _dcp(path)
        return _torch(path) if kind == "torch" else _safetensors(path)
    except WeightsError as error:
        raise CheckpointError(error.kind, error.message) from error


def open_weights(path: Path) -> Source:
    """Tensors by their names in checkpoints: of the weights file of an export, or of a checkpoint."""
    if (path / MANIFEST).exists() or any(path.glob("step-*")):
        checkpoint = open_checkpoint(path)
        tensors = checkpoint.manifest.tensors
        return {t.name: lambda tensor=t: checkpoint.tensor(tensor) for t in tensors}
    return open_source(path, "safetensors")


def _safetensors(path: Path) -> Source:
    source: Source = dict(tensor_reads(path))
    # An index is the model's; what export writes of the optimizer lies beside it.
    folder = path.parent if path.suffix == ".json" else path
    for file in folder.glob("optimizer*.safetensors"):
        source |= tensor_reads(file)
    return source


class _Reader(dcp.FileSystemReader):
    """Reads the folder's list of tensors once, whose pickle is the format's."""

    known: Metadata

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        if not hasattr(self, "known"):
            self.known = super().read_metadata(*args, **kwargs)
        return self.known


def _dcp(path: Path) -> Source:
    if not (path / ".metadata").exists():
        raise CheckpointError(
            E.IMPORT_SOURCE,
            f"{path} is no folder of torch.distributed.checkpoint: it has no .metadata",
        )
    for file in (path / ".metadata", *path.glob("*.distcp")):
        require_regular(file)
    reader = _Reader(path)
    try:
        described = dict(reader.read_metadata().state_dict_metadata)
    except Exception as error:  # pickle's errors are of many types
        raise CheckpointError(
            E.IMPORT_SOURCE, f"{path / '.metadata'} cannot be read: {_line(error)}"
        ) from error

    def read(name: str) -> Any:
        entry = described[name]
        state: dict[str, Any] = {name: None}
        if isinstance(entry, TensorStorageMetadata):
            if sum(chunk.sizes.numel() for chunk in entry.chunks) != entry.size.numel():
                raise CheckpointError(
                    E.IMPORT_SOURCE, f"{path} has not all of {name}; save it again with dcp.save"
                )
            state[name] = torch.empty(entry.size, dtype=entry.properties.dtype)
        with alone(path):
            dcp.load(state, storage_reader=reader, no_dist=True)
        return state[name]

    return {name: lambda name=name: read(name) for name in described}


def _torch(path: Path) -> Source:
    """Only tensors and plain values are read: nothing in the file is run."""
    try:
        content = load_plain(path)
    except ValueError as error:
        raise CheckpointError(
            E.IMPORT_SOURCE,
            f"{path} is no file of state_dict()s alone: {error}; write {{'model': "
            "model.state_dict(), 'optim': optimizer.state_dict(), 'step': n} with torch.save",
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(
            E.IMPORT_SOURCE, f"{path} has no dictionary, but a {type(content).__name__}"
        )
    try:
        flat, _ = flatten_state_dict(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(E.IMPORT_SOURCE, f"{path}: {_line(error)}") from error
    return {name: lambda value=value: value for name, value in flat.items()}


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

"""Writes a file of torch.save."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import torch

from .errors import E, CheckpointError
from .folder import unfinished
from .pytorch_form import Skeleton


def export_torch(skeleton: Skeleton, state: dict[str, Any], target: Path) -> None:
    """Writes `state` to the file `target`. One tensor at a time is in memory: the file is saved
    without values, and then filled in its place."""
    empty: dict[int, torch.Tensor] = {}

    def emptied(value: Any) -> Any:
        if skeleton.source(value) is not None:
            if id(value) not in empty:
                empty[id(value)] = torch.empty(value.shape, dtype=value.dtype)
            return empty[id(value)]
        return value

    with unfinished(target) as partial:
        try:
            with torch.serialization.skip_data():
                torch.save(_mapped(emptied, state), partial)
        except RuntimeError as error:  # of a stream that cannot be written
            text = " ".join(str(error).split())
            raise CheckpointError(
                E.FILE_UNWRITABLE, f"{target} cannot be written: {text}"
            ) from error
        # A mapped file without room for it would end the process.
        with open(partial, "rb+") as file:
            os.posix_fallocate(file.fileno(), 0, partial.stat().st_size)
        with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
            saved = torch.load(partial, mmap=True, weights_only=True)
        _fill(skeleton, state, saved)
        del saved
        with open(partial, "rb") as file:
            os.fsync(file.fileno())


def _mapped(function: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(function, member) for key, member in value.items()}
    if isinstance(value, list):
        return [_mapped(function, member) for member in value]
    return function(value)


def _fill(skeleton: Skeleton, wanted: Any, saved: Any) -> None:
    """Gives the tensors of `saved` their values."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            _fill(skeleton, value, saved[key])
    elif isinstance(wanted, list):
        for value, place in zip(wanted, saved, strict=True):
            _fill(skeleton, value, place)
    elif isinstance(wanted, torch.Tensor):
        tensor = skeleton.source(wanted)
        saved.copy_(wanted if tensor is None else skeleton.checkpoint.tensor(tensor))

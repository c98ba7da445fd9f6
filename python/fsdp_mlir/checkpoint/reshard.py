"""Rewrites a checkpoint for another number of files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .manifest import Tensor
from .reader import Checkpoint
from .writer import write_checkpoint


def reshard(checkpoint: Checkpoint, files: int, root: Path) -> Path:
    """Writes the checkpoint into the folder `root` with so many files, cut by rows as FSDP2 cuts
    them, so that a run of as many ranks finds nearly all that one of them needs in one file. All
    else stays as it is: also each rank's own values, for which there are as many files as ranks
    wrote it.

    Returns the new checkpoint's folder.
    """
    old = {tensor.name: tensor for tensor in checkpoint.manifest.tensors}

    def read(tensor: Tensor, rank: int) -> np.ndarray:
        return checkpoint.read(old[tensor.name], rank)

    manifest = checkpoint.manifest
    loaders = {loader.rank: checkpoint.loader_state(loader) for loader in manifest.loaders}
    return write_checkpoint(
        root, manifest.run, manifest.tensors, read, files, manifest.mesh, manifest.plan, loaders
    )

"""Compares every byte of a checkpoint with what its manifest says."""

from __future__ import annotations

from .elements import element_bytes
from .errors import Damage
from .reader import Checkpoint


def damages(checkpoint: Checkpoint) -> list[str]:
    """A line for each file and tensor that is not as it was written; none: all is."""
    manifest = checkpoint.manifest
    lines = []
    broken = set()
    for index in range(len(manifest.files)):
        try:
            checkpoint.file(index)
        except Damage as damage:
            broken.add(index)
            names = [t.name for t in manifest.tensors if index in {c.file for c in t.chunks}]
            shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if names[8:] else "")
            lines.append(f"{damage.message}; it has parts of {shown}")
    known = [file.header_bytes for file in manifest.files]
    for tensor in manifest.tensors:
        for chunk in tensor.chunks:
            known[chunk.file] += chunk.count * element_bytes(tensor.dtype)
            if chunk.file in broken:
                continue
            try:
                for _ in checkpoint.file(chunk.file).blocks(tensor, chunk):
                    pass
            except Damage as damage:
                lines.append(damage.message)
    for file, size in zip(manifest.files, known):
        if size != file.bytes:
            path = checkpoint.path / file.name
            lines.append(f"{path} has {file.bytes - size} bytes that are no tensor's")
    for loader in manifest.loaders:
        try:
            checkpoint.loader_state(loader)
        except Damage as damage:
            lines.append(damage.message)
    return lines

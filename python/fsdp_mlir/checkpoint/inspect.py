"""What a checkpoint says of itself, for people or as JSON."""

from __future__ import annotations

from typing import Any

from ..untrusted import seen
from .elements import describe
from .manifest import ROLES, Manifest
from .manifest_text import json_number
from .reader import Checkpoint


def summary(checkpoint: Checkpoint) -> dict[str, Any]:
    """The checkpoint's facts in values that JSON has. Bytes are those of one value of each tensor."""
    manifest = checkpoint.manifest
    run = vars(manifest.run) | {
        "epoch_losses": list(map(json_number, manifest.run.epoch_losses)),
        "metrics": {name: json_number(value) for name, value in manifest.run.metrics.items()},
    }
    return {
        "path": str(checkpoint.path),
        **run,
        "ranks": manifest.ranks,
        "mesh": [{"name": name, "size": size} for name, size in manifest.mesh],
        "plan": manifest.plan,
        "files": [{"name": file.name, "bytes": file.bytes} for file in manifest.files],
        "bytes": _bytes(manifest),
        "tensors": [
            {
                "name": tensor.name,
                "role": tensor.role,
                "dtype": tensor.dtype,
                "shape": list(tensor.shape),
                "bytes": tensor.bytes,
                "aliases": list(tensor.aliases),
                "per_rank": tensor.per_rank,
                "chunks": len(tensor.chunks),
            }
            for tensor in manifest.tensors
        ],
    }


def _bytes(manifest: Manifest) -> dict[str, int]:
    return {role: sum(t.bytes for t in manifest.of_role(role)) for role in ROLES}


def report(checkpoint: Checkpoint) -> str:
    """Lines for people."""
    manifest, run = checkpoint.manifest, checkpoint.manifest.run
    mesh = " x ".join(f"{name}={size}" for name, size in manifest.mesh)
    position = f"{run.samples_in_epoch} of its {run.samples} samples read" if run.samples else ""
    roles = {role: list(manifest.of_role(role)) for role in ROLES}
    sizes = _bytes(manifest)
    rows = [
        ("checkpoint", str(checkpoint.path)),
        ("step", f"{run.step} done"),
        ("epoch", f"{run.epoch + 1}{', ' + position if position else ''}"),
        ("seed", str(run.seed)),
        ("ranks", f"{manifest.ranks} ({mesh})"),
        ("metrics", ", ".join(f"{name} {value:g}" for name, value in run.metrics.items()) or "-"),
        ("files", f"{len(manifest.files)}, {_size(sum(file.bytes for file in manifest.files))}"),
        *((role, f"{len(roles[role])} tensors, {_size(sizes[role])}") for role in ROLES),
    ]
    lines = [f"{name:<11} {value}" for name, value in rows]
    return seen("\n".join([*lines, "", *_table(manifest)]))


def _table(manifest: Manifest) -> list[str]:
    cells = [("tensor", "role", "elements", "bytes", "chunks", "")]
    for tensor in manifest.tensors:
        notes = [f"= {alias}" for alias in tensor.aliases] + ["per rank"] * tensor.per_rank
        cells.append(
            (
                tensor.name,
                tensor.role,
                describe(tensor.dtype, tensor.shape),
                str(tensor.bytes),
                str(len(tensor.chunks)),
                ", ".join(notes),
            )
        )
    widths = [max(map(len, column)) for column in zip(*cells)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def _size(count: int) -> str:
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.0f} {units[0]}" if amount == int(amount) else f"{amount:.1f} {units[0]}"

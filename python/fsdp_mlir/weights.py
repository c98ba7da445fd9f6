"""Writes safetensors files straight from tensors, without a second copy of them in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import BinaryIO, Mapping, Optional

import torch

from .dtypes import DTYPES
from .errors import ExportError
from .names import StateNames
from .scaler import scaler_states
from .training_step import TrainingStep


def save_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Optional[Mapping[str, str]] = None
) -> None:
    """Writes `tensors`, row-major, to the safetensors file `path`.

    Only a tensor that is not contiguous is copied, and one at a time.
    """
    header: dict[str, object] = {}
    if metadata:
        header["__metadata__"] = dict(sorted(metadata.items()))
    offset = 0
    for name, tensor in tensors.items():
        row = DTYPES.get(tensor.dtype)
        if row is None or row.safetensors is None:
            raise ExportError(
                f"{name} is {str(tensor.dtype).removeprefix('torch.')}, which safetensors cannot hold"
            )
        size = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": row.safetensors,
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for tensor in tensors.values():
            _write(file, tensor)


def _write(file: BinaryIO, tensor: torch.Tensor) -> None:
    if tensor.numel() == 0:
        return
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    file.write(memoryview(plain.reshape(-1).view(torch.uint8).numpy()))


def save_weights(path: Path, step: TrainingStep, names: StateNames) -> None:
    """Writes parameters, buffers, constants and the example inputs, each tensor once, but for
    those that start by a recipe."""
    first = names.first_values
    tensors: dict[str, torch.Tensor] = {}
    for fqn, tensor in names.parameters.items():
        if first.recipe(tensor) is None:
            tensors[fqn] = first.value(fqn, tensor)
    for fqn, tensor in names.buffers.items():
        if first.recipe(tensor) is None:
            stored = fqn if names.persistent[fqn] else f"fsdp.buffer.{fqn}"
            tensors[stored] = first.value(fqn, tensor)
    for fqn, tensor in scaler_states(step.scaler).items():
        tensors[f"fsdp.buffer.{fqn}"] = tensor
    for fqn, tensor in names.constants.items():
        tensors[fqn] = first.value(fqn, tensor)
    tensors.update({f"fsdp.input.{name}": tensor for name, tensor in step.inputs.items()})
    aliases = {alias: fqn for fqn, names_ in names.aliases.items() for alias in names_}
    save_tensors(path, tensors, {a: fqn for a, fqn in aliases.items() if fqn in tensors})

"""Writes safetensors files straight from tensors, without a second copy of them in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Optional

import torch

from ..step.names import StateNames
from ..step.pairs import as_pairs, is_held_in_pairs
from ..step.scaler import scaler_states
from ..data.tensor_file import Entry, TensorFile, as_bytes
from ..step.training_step import TrainingStep


def save_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Optional[Mapping[str, str]] = None
) -> None:
    """Writes `tensors`, row-major, to the safetensors file `path`.

    Only a tensor that is not contiguous is copied, and one at a time.
    """
    entries = {name: Entry(tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}
    with TensorFile(path, entries, metadata) as file:
        for name, tensor in tensors.items():
            file.write(name, as_bytes(tensor))


def save_weights(path: Path, step: TrainingStep, names: StateNames) -> None:
    """Writes parameters, buffers, constants and the example inputs, each tensor once, but for
    those that start by a recipe."""
    first = names.first_values

    def held(fqn: str, tensor: torch.Tensor) -> torch.Tensor:
        value = first.value(fqn, tensor)
        return as_pairs(value) if is_held_in_pairs(tensor) else value

    tensors: dict[str, torch.Tensor] = {}
    for fqn, tensor in names.parameters.items():
        if first.recipe(tensor) is None:
            tensors[fqn] = held(fqn, tensor)
    for fqn, tensor in names.buffers.items():
        if first.recipe(tensor) is None:
            stored = fqn if names.persistent[fqn] else f"fsdp.buffer.{fqn}"
            tensors[stored] = held(fqn, tensor)
    for fqn, tensor in scaler_states(step.scaler).items():
        tensors[f"fsdp.buffer.{fqn}"] = tensor
    for fqn, tensor in names.constants.items():
        tensors[fqn] = held(fqn, tensor)
    tensors.update({f"fsdp.input.{name}": tensor for name, tensor in step.inputs.items()})
    aliases = {alias: fqn for fqn, names_ in names.aliases.items() for alias in names_}
    save_tensors(path, tensors, {a: fqn for a, fqn in aliases.items() if fqn in tensors})

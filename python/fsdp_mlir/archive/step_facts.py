"""What an archive says of a step's modules, states and inputs (docs/archive.md)."""

from __future__ import annotations

from typing import Any, Iterable, Optional

import torch

from ..data.checks import column_names
from ..dtypes import dtype_name
from ..step.fsdp_module import original_class
from ..step.names import StateNames, plain_path
from ..step.pairs import as_held
from ..step.scaler import scaler_states
from ..step.strides import row_major_strides
from ..step.training_step import TrainingStep
from .missed_steps import first_count
from .unit_table import UnitTable


def describe_modules(step: TrainingStep, names: StateNames) -> list[dict[str, Any]]:
    """The model's modules in the order of `named_modules()`."""
    containers = (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict)
    # Of a wrapper and what it wraps, the latter.
    modules = {plain_path(path): module for path, module in step.model.named_modules()}
    return [
        {
            "path": path,
            "class": original_class(module).__name__,
            "container": isinstance(module, containers),
            "aliases": names.paths[id(module)][1:],
        }
        for path, module in modules.items()
    ]


def describe_parameters(names: StateNames, sharding: UnitTable) -> list[dict[str, Any]]:
    return [
        {
            **_tensor(fqn, as_held(t), names),
            "trainable": t.requires_grad,
            "unit": sharding.owner[fqn],
            "shard_dim": sharding.shard_dims.get(fqn, 0),
            "init": names.first_values.describe(t),
        }
        for fqn, t in names.parameters.items()
    ]


def describe_buffers(
    step: TrainingStep, names: StateNames, missed: Iterable[str]
) -> list[dict[str, Any]]:
    """The model's buffers, the states of the loss scaler, and the counts of steps `missed`."""
    zero = [{"op": "fill", "values": [0.0], "draw": 0, "region": None}]
    own = [(fqn, t, None) for fqn, t in scaler_states(step.scaler).items()]
    own += [(fqn, first_count(), zero) for fqn in sorted(set(missed))]
    return [
        {
            **_tensor(fqn, as_held(t), names),
            "persistent": names.persistent[fqn],
            "init": names.first_values.describe(t),
        }
        for fqn, t in names.buffers.items()
    ] + [
        {"fqn": fqn, "aliases": [], **_type(t, fqn), "persistent": False, "init": init}
        for fqn, t, init in own
    ]


def describe_constants(names: StateNames) -> list[dict[str, Any]]:
    return [_type(as_held(t), fqn) | {"fqn": fqn} for fqn, t in names.constants.items()]


def describe_inputs(step: TrainingStep) -> list[dict[str, Any]]:
    return [
        {"name": name, **_type(t, name), "source": _input_source(step, name)}
        for name, t in step.inputs.items()
    ]


def describe_length(step: TrainingStep) -> Optional[dict[str, int]]:
    """The default length of a run."""
    if step.steps is not None:
        return {"steps": step.steps}
    return None if step.epochs is None else {"epochs": step.epochs}


def _tensor(fqn: str, tensor: torch.Tensor, names: StateNames) -> dict[str, Any]:
    held = _type(tensor, fqn) | {"strides": list(row_major_strides(tensor.shape))}
    return {"fqn": fqn, "aliases": names.aliases[fqn], **held}


def _type(tensor: torch.Tensor, name: str) -> dict[str, Any]:
    return {
        "shape": list(tensor.shape),
        "dtype": dtype_name(tensor.dtype, name),
        "strides": list(tensor.stride()),
    }


def _input_source(step: TrainingStep, name: str) -> str:
    if step.data is None:
        return "data" if len(step.batches) > 1 else "repeat"  # one of them would repeat
    return "data" if name in column_names(step.data) else "repeat"

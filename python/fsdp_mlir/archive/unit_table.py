"""The units of a model at export: who owns which parameter, checked as FSDP2 would.

Ownership is read from the module tree when the step is exported, so that parameters may be
replaced or tied after `fully_shard`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from torch import nn

from ..dtypes import dtype_name
from ..errors import E, ExportError
from ..step.fsdp_module import original_class
from ..step.fully_shard import check_reshard
from ..step.unit import Unit, enclosing_unit, unit_of
from ..step.mesh import DeviceMesh
from ..capture.mixed_precision import MixedPrecision
from ..step.names import StateNames, plain_path
from ..step.pairs import check_precision
from .not_yet import check_exists
from ..step.policies import CPUOffloadPolicy, MixedPrecisionPolicy
from ..step.training_step import TrainingStep


@dataclass
class UnitTable:
    """The archive's part about sharding.

    Attributes:
        units: an entry per unit; empty where the model names none and the compiler chooses.
        owner: the unit of each parameter by its first name; None: no unit, each rank has it whole.
        shard_dims: the dimension that it is split on, where that is not 0.
        mesh: the ranks that the model asks for, or None.
        precision: the units' mixed precision.
    """

    units: list[dict[str, Any]] = field(default_factory=list)
    owner: dict[str, Optional[str]] = field(default_factory=dict)
    shard_dims: dict[str, int] = field(default_factory=dict)
    mesh: Optional[dict[str, Any]] = None
    precision: MixedPrecision = field(init=False)


def describe_units(step: TrainingStep, names: StateNames) -> UnitTable:
    """Reads what `fully_shard` recorded on the model.

    Warns of trainable parameters that `ignored_params` leaves out, and of a mesh of CUDA devices.

    Raises:
        ExportError: a parameter that cannot be sharded or belongs to two units, dtypes or meshes
            that differ, a module to prefetch that is not the model's, or a policy that does not
            exist yet.
    """
    table = UnitTable(owner=dict.fromkeys(names.parameters))
    _check_inside(step.model)
    places = _units_by_path(step.model)
    units = _name_units(places, names)
    if not units:
        table.precision = MixedPrecision([], {}, names)
        return table
    for fqn, tensor in names.parameters.items():
        name = _owner(fqn, names.aliases[fqn], places, units)
        if _is_sharded(fqn, tensor, name, units):
            table.owner[fqn] = name
    for fqn in sorted(names.changed):
        _check_changed(fqn, names, units.get(_owner(fqn, names.aliases[fqn], places, units)))
    mesh = _common_mesh(units)
    members = {name: [f for f, owner in table.owner.items() if owner == name] for name in units}
    for name, unit in units.items():
        unit.reshard_after_forward = check_reshard(unit.reshard_after_forward, mesh)
        _check_dtypes(name, members[name], names)
    check_exists(mesh)
    for name, unit in units.items():
        for fqn in members[name]:
            if dim := _shard_dim(unit, fqn, names.parameters[fqn], mesh):
                table.shard_dims[fqn] = dim
    if mesh is not None and mesh.device_type == "cuda":
        warnings.warn("the mesh is of cuda devices; compile the step with device=cuda")
    table.mesh = mesh and {
        "device": mesh.device_type,
        "shape": list(mesh.shape),
        "names": mesh.mesh_dim_names and list(mesh.mesh_dim_names),
    }
    table.units = [_describe_unit(name, units, places, names) for name in units]
    table.precision = MixedPrecision(units.values(), _casts(units, members, names), names)
    return table


def _is_sharded(
    fqn: str, tensor: torch.Tensor, name: Optional[str], units: dict[str, Unit]
) -> bool:
    """Whether the unit `name` shards a parameter, rather than leave it whole on each rank."""
    if name is None and tensor.requires_grad:
        raise ExportError(
            E.UNITS,
            f"{fqn} is trainable and in no unit, so each rank would train its own; call "
            "fully_shard(model) last, which takes what is left, or name it in ignored_params",
        )
    if name is None:
        return False
    if tensor in units[name].ignored_params:
        if tensor.requires_grad:
            warnings.warn(
                f"{fqn} is in ignored_params and trainable: each rank updates its own copy by "
                "the gradient of its own batch, and rank 0's is saved"
            )
        return False
    _check_parameter(fqn, tensor)
    check_precision(fqn, tensor, units[name].mp_policy)
    return True


def _describe_unit(
    name: str,
    units: dict[str, Unit],
    places: dict[str, Optional[Unit]],
    names: StateNames,
) -> dict[str, Any]:
    unit = units[name]
    return {
        "name": name,
        "modules": [names.paths[id(m)][0] for m in unit.modules],
        "root": _is_root(unit, places, names),
        "reshard_after_forward": unit.reshard_after_forward,
        **_describe_precision(unit.mp_policy),
        "offload": _offload(unit),
        "gradient_divisor": unit.gradient_divide_factor,
        "prefetch_forward": _names(unit.forward_prefetch, units, name),
        "prefetch_backward": _names(unit.backward_prefetch, units, name),
    }


def _describe_precision(policy: MixedPrecisionPolicy) -> dict[str, Any]:
    described: dict[str, Any] = {"cast_forward_inputs": policy.cast_forward_inputs}
    for name in ("param_dtype", "reduce_dtype", "output_dtype"):
        dtype = policy.casts.get(name)
        described[name] = dtype and dtype_name(dtype, f"{name} of MixedPrecisionPolicy")
    return described


def _casts(
    units: dict[str, Unit], members: dict[str, list[str]], names: StateNames
) -> dict[str, torch.dtype]:
    """The dtypes that parameters are computed in, where they are not their own."""
    casts = {}
    for name, unit in units.items():
        dtype = unit.mp_policy.param_dtype
        for fqn in members[name]:
            if dtype is not None and names.parameters[fqn].dtype != dtype:
                casts[fqn] = dtype
    return casts


def _offload(unit: Unit) -> Optional[dict[str, bool]]:
    policy = unit.offload_policy
    return {"pin_memory": policy.pin_memory} if isinstance(policy, CPUOffloadPolicy) else None


def _names(prefetched: list[Unit], units: dict[str, Unit], name: str) -> list[str]:
    """The names of what a unit prefetches, each once."""
    names = [_name_of(unit, units) for unit in dict.fromkeys(prefetched)]
    if None in names:
        raise ExportError(
            E.UNITS,
            f"{_quote(name)} is to prefetch a module that is not a part of the model; give modules "
            "of the model that fully_shard was called on",
        )
    return names


def _check_inside(model: nn.Module) -> None:
    """The step's model may be a part of what was annotated, whose units would then be lost."""
    outer = enclosing_unit(model)
    if outer is not None:
        raise ExportError(
            E.UNITS,
            f"fully_shard was called on a {original_class(outer.modules[0]).__name__} that the "
            f"step's model, a {original_class(model).__name__}, is inside of; give TrainingStep "
            "the outer one, or annotate the model itself",
        )


def _units_by_path(model: nn.Module) -> dict[str, Optional[Unit]]:
    """The innermost unit around each module, by each of the module's paths."""
    places: dict[str, Optional[Unit]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        path = plain_path(path)
        # Parents come first; the model's own parent is no path, and a wrapper has the path of what
        # it wraps.
        above = places.get(path) or (places.get(path.rpartition(".")[0]) if path else None)
        places[path] = unit_of(module) or above
    return places


def _name_units(places: dict[str, Optional[Unit]], names: StateNames) -> dict[str, Unit]:
    """Units by the path of their first module, in the order of `named_modules()`."""
    units: dict[str, Unit] = {}
    for unit in dict.fromkeys(places.values()):
        if unit is None:
            continue
        for module in unit.modules:
            if id(module) not in names.paths:
                raise ExportError(
                    E.UNITS,
                    f"fully_shard has a {original_class(module).__name__} in a list that is not a "
                    "part of the model; the modules of one unit are modules of one model",
                )
        units[names.paths[id(unit.modules[0])][0]] = unit
        if len(unit.modules) > 1 and _is_root(unit, places, names):
            raise ExportError(
                E.UNITS,
                "the outermost unit is a list of modules, but it is one module that is run first; "
                "call fully_shard(model) last",
            )
    return units


def _is_root(unit: Unit, places: dict[str, Optional[Unit]], names: StateNames) -> bool:
    """Whether no other unit is around this one."""
    paths = [path for module in unit.modules for path in names.paths[id(module)]]
    return any(not path or places[path.rpartition(".")[0]] is None for path in paths)


def _owner(
    fqn: str, aliases: list[str], places: dict[str, Optional[Unit]], units: dict[str, Unit]
) -> Optional[str]:
    owners = {name: places[name.rpartition(".")[0]] for name in (fqn, *aliases)}
    if len(set(map(id, owners.values()))) > 1:
        found = {id(unit): name for name, unit in owners.items()}
        first, second = list(found.values())[:2]
        raise ExportError(
            E.UNITS,
            f"{first} and {second} are one parameter in two units, {_show(owners[first], units)} "
            f"and {_show(owners[second], units)}; shard both of its modules in one unit (give "
            "fully_shard a list), or leave both to the outermost",
        )
    return _name_of(owners[fqn], units)


def _name_of(unit: Optional[Unit], units: dict[str, Unit]) -> Optional[str]:
    return next((name for name, known in units.items() if known is unit), None)


def _show(unit: Optional[Unit], units: dict[str, Unit]) -> str:
    return "no unit" if unit is None else _quote(_name_of(unit, units) or "")


def _quote(name: str) -> str:
    return f"unit {name}" if name else "the model's own unit"


def _check_parameter(fqn: str, tensor: torch.Tensor) -> None:
    if tensor.dim() == 0:
        raise ExportError(
            E.SHARDING,
            f"{fqn} is a scalar, which cannot be sharded; make it a 1-D tensor with one element",
        )


def _check_changed(fqn: str, names: StateNames, unit: Optional[Unit]) -> None:
    dtype = unit and unit.mp_policy.param_dtype
    if dtype is not None and dtype != names.buffers[fqn].dtype:
        raise ExportError(
            E.UNITS,
            f"the step changes the frozen parameter {fqn}, of which its unit computes with a copy in "
            f"{dtype_name(dtype, 'param_dtype')}; shard its module as a unit of its own, without "
            "param_dtype",
        )


def _check_dtypes(name: str, members: list[str], names: StateNames) -> None:
    dtypes: dict[torch.dtype, str] = {}
    for fqn in members:
        if names.parameters[fqn].requires_grad:
            dtypes.setdefault(names.parameters[fqn].dtype, fqn)
    if len(dtypes) > 1:
        found = " and ".join(f"{dtype_name(d, fqn)} ({fqn})" for d, fqn in dtypes.items())
        raise ExportError(
            E.SHARDING,
            f"{_quote(name)} has trainable parameters of {found}; a unit has one dtype, "
            "as its gradients are reduced together: freeze one, or make units of them",
        )


def _shard_dim(unit: Unit, fqn: str, parameter: torch.Tensor, mesh: Optional[DeviceMesh]) -> int:
    """The dimension that `shard_placement_fn` splits a parameter on; 0 without one."""
    from torch.distributed.tensor import Shard

    if unit.shard_placement_fn is None:
        return 0
    placement = unit.shard_placement_fn(parameter)
    if placement is None:
        return 0
    if not isinstance(placement, Shard) or not -parameter.dim() <= placement.dim < parameter.dim():
        raise ExportError(
            E.SHARDING,
            f"shard_placement_fn gives {placement!r} for {fqn} of shape {list(parameter.shape)}; "
            "give Shard(dim) of one of its dimensions, or None",
        )
    dim = placement.dim % parameter.dim()
    if dim and mesh is not None and parameter.shape[dim] % mesh.num_shards:
        raise ExportError(
            E.SHARDING,
            f"shard_placement_fn gives Shard({dim}) for {fqn} of shape {list(parameter.shape)}, "
            f"and {parameter.shape[dim]} does not divide by the {mesh.num_shards} ranks; only "
            "dimension 0 may be uneven",
        )
    return dim


def _common_mesh(units: dict[str, Unit]) -> Optional[DeviceMesh]:
    meshes = {unit.mesh: name for name, unit in units.items() if unit.mesh is not None}
    if len(meshes) > 1:
        (one, first), (other, second) = list(meshes.items())[:2]
        raise ExportError(
            E.MESH,
            f"{_quote(first)} and {_quote(second)} have different meshes, {one} and "
            f"{other}; give all units the same",
        )
    return next(iter(meshes), None)

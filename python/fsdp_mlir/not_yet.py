"""What `fully_shard` may be asked for and no pass does yet: refused at export, never ignored."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional

import torch

from .errors import ExportError
from .fsdp_module import Unit
from .mesh import DeviceMesh

Parameters = Mapping[str, torch.Tensor]


def check_exists(
    units: Mapping[str, Unit], members: Mapping[str, Parameters], mesh: Optional[DeviceMesh]
) -> None:
    """Refuses all that the units ask for and that does not exist yet, in one error.

    Args:
        units, members: the unit, and its parameters by name, by what a message calls it.
        mesh: of all units.

    Raises:
        ExportError: it names each argument, the units, and what to use instead; or an argument is
            wrong by itself.
    """
    missing: dict[tuple[str, str], list[str]] = {}
    for name, unit in units.items():
        for what in _of_unit(unit, members[name], mesh):
            missing.setdefault(what, []).append(name)
    for what in _of_mesh(mesh):
        missing[what] = []
    if missing:
        listed = "; ".join(
            what + (f" in {', '.join(where)}" if where else "") + f" ({instead})"
            for (what, instead), where in missing.items()
        )
        raise ExportError(
            f"fully_shard is asked for what does not exist yet: {listed}. See docs/porting.md"
        )


def _of_unit(
    unit: Unit, parameters: Parameters, mesh: Optional[DeviceMesh]
) -> Iterator[tuple[str, str]]:
    if isinstance(reshard := unit.reshard_after_forward, int) and not isinstance(reshard, bool):
        yield f"reshard_after_forward={reshard}", "give True or False"
    if unit.shard_placement_fn is not None:
        for fqn, parameter in parameters.items():
            if dim := _shard_dim(unit, fqn, parameter, mesh):
                yield f"Shard({dim}) of {fqn}", "give Shard(0), which may be uneven"


def _of_mesh(mesh: Optional[DeviceMesh]) -> Iterator[tuple[str, str]]:
    if mesh is None:
        return
    if mesh.ndim > 1:
        yield (
            "a mesh of two dimensions",
            f"init_device_mesh(({mesh.ranks},)) shards over all ranks, with the same averages",
        )
    elif mesh.ranks != mesh.size():
        yield (
            f"a mesh that is a part of one of {mesh.ranks} ranks",
            f"init_device_mesh(({mesh.ranks},)) shards over all of them",
        )
    elif not mesh.in_order:
        yield (
            "a mesh whose ranks are not in order",
            f"init_device_mesh(({mesh.ranks},)) has them in order",
        )


def _shard_dim(unit: Unit, fqn: str, parameter: torch.Tensor, mesh: Optional[DeviceMesh]) -> int:
    from torch.distributed.tensor import Shard

    placement = unit.shard_placement_fn(parameter)
    if placement is None:
        return 0
    if not isinstance(placement, Shard) or not -parameter.dim() <= placement.dim < parameter.dim():
        raise ExportError(
            f"shard_placement_fn gives {placement!r} for {fqn} of shape {list(parameter.shape)}; "
            "give Shard(dim) of one of its dimensions, or None"
        )
    dim = placement.dim % parameter.dim()
    if dim and mesh is not None and parameter.shape[dim] % mesh.shape[-1]:
        raise ExportError(
            f"shard_placement_fn gives Shard({dim}) for {fqn} of shape {list(parameter.shape)}, "
            f"and {parameter.shape[dim]} does not divide by the {mesh.shape[-1]} ranks; only "
            "dimension 0 may be uneven"
        )
    return dim

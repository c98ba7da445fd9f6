"""A run's states as tensors of PyTorch: views, DTensors, or copies where neither is possible."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from .errors import RunError


def state_dict(session: Any) -> dict[str, torch.Tensor]:
    """See `Run.state_dict`."""
    entries = [entry for entry in session.states() if entry["is_parameter"] or entry["persistent"]]
    if session.size == 1:
        tensors = {entry["name"]: entry["local"] for entry in entries}
    elif dist.is_available() and dist.is_initialized():
        tensors = _distributed(session, entries)
    else:
        whole = session.whole(False)
        tensors = {entry["name"]: whole[entry["name"]] for entry in entries}
    return {
        name: tensors[entry["name"]]
        for entry in entries
        for name in (entry["name"], *entry["aliases"])
    }


def _mesh(session: Any) -> Any:
    """The plan's mesh as PyTorch's, over the process group that exists."""
    from torch.distributed.device_mesh import init_device_mesh

    if dist.get_world_size() != session.size or dist.get_rank() != session.rank:
        raise RunError(
            f"the process group has rank {dist.get_rank()} of {dist.get_world_size()}, and the run "
            f"rank {session.rank} of {session.size}; let both be of the same ranks"
        )
    names, sizes = zip(*session.mesh)
    return init_device_mesh("cpu", sizes, mesh_dim_names=names)


def _distributed(session: Any, entries: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    from torch.distributed.tensor import DTensor, Replicate, Shard

    mesh = _mesh(session)
    flat = session.whole(True) if any(entry["local"] is None for entry in entries) else {}

    def placed(entry: dict[str, Any]) -> torch.Tensor:
        local, dim = entry["local"], entry["shard_dim"]
        if not entry["is_parameter"]:
            return local
        placements = [Replicate()] * mesh.ndim
        if dim >= 0:
            placements[-1] = Shard(dim)
        shape = torch.Size(entry["shape"])
        if local is None:
            local = _chunk(flat[entry["name"]], dim, mesh)
        stride = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(
            local, mesh, placements, run_check=False, shape=shape, stride=stride
        )

    return {entry["name"]: placed(entry) for entry in entries}


def _chunk(whole: torch.Tensor, dim: int, mesh: Any) -> torch.Tensor:
    """This rank's part, as DTensor cuts; empty where there are fewer chunks than ranks."""
    index = mesh.get_local_rank(mesh.ndim - 1)
    chunks = torch.chunk(whole, mesh.size(mesh.ndim - 1), dim)
    return chunks[index].clone() if index < len(chunks) else whole.narrow(dim, 0, 0).clone()

"""Ranks of PyTorch's FSDP2 on Gloo, which train the small model and keep checkpoints."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from support.rank_calls import RANKS, RankCalls, serve


class Ranks(RankCalls):
    """They call functions of this file."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(_serve, folder, preload="torch.distributed.fsdp")


def _serve(pipe: Any, rank: int, store: str) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.FileStore(store, RANKS), rank=rank, world_size=RANKS)
    serve(pipe, globals().__getitem__)


def _sharded() -> Any:
    """The model under fully_shard, and its optimizer."""
    from small_run import new_model, new_optimizer
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard

    model = new_model()
    mixed = model.mix.weight
    mesh = init_device_mesh("cpu", (RANKS,))
    fully_shard(model, mesh=mesh, shard_placement_fn=lambda p: Shard(1) if p is mixed else None)
    return model, new_optimizer(model)


def _train(model: Any, optimizer: Any, begin: int, end: int) -> list[float]:
    import torch.distributed as dist
    from small_run import eager_losses

    return eager_losses(model, optimizer, begin, end, dist.get_rank(), RANKS)


def begin_and_save(end: int, further: int, dcp_folder: str, own_folder: str) -> list[float]:
    """Trains until step `end`, keeps that, and trains on until `further`."""
    from small_run import BATCH
    from torch.distributed import checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    from fsdp_mlir.checkpoint import save

    model, optimizer = _sharded()
    losses = _train(model, optimizer, 0, end)
    state = dict(zip(("model", "optim"), get_state_dict(model, optimizer)))
    dcp.save(state, checkpoint_id=dcp_folder)
    save(own_folder, model, optimizer, end, samples_per_step=BATCH * RANKS)
    return losses + _train(model, optimizer, end, further)


def go_on_from_dcp(folder: str, begin: int, end: int) -> list[float]:
    from torch.distributed import checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model, optimizer = _spoiled()
    state = dict(zip(("model", "optim"), get_state_dict(model, optimizer)))
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"]
    )
    return _train(model, optimizer, begin, end)


def go_on_from_own(folder: str, begin: int, end: int) -> list[float]:
    from fsdp_mlir.checkpoint import load

    model, optimizer = _spoiled()
    assert load(folder, model, optimizer) == begin
    return _train(model, optimizer, begin, end)


def _spoiled() -> Any:
    """As _sharded, with weights that show where they are not loaded."""
    import torch

    model, optimizer = _sharded()
    with torch.no_grad():
        for value in model.parameters():
            value.fill_(3)
    return model, optimizer

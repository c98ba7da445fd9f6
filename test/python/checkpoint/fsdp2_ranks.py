"""Ranks of PyTorch's FSDP2 on Gloo, which train the small model and keep checkpoints."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import traceback
from multiprocessing.connection import wait
from typing import Any

RANKS, TIMEOUT_S = 2, 240


class Ranks:
    """Two processes that stay up until close()."""

    def __init__(self, folder: pathlib.Path) -> None:
        # A fork server imports PyTorch once for both of them.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch.distributed.fsdp"])
        self.pipes, self.workers = [], []
        for rank in range(RANKS):
            here, there = context.Pipe()
            arguments = (there, rank, str(folder / "store"))
            worker = context.Process(target=_serve, args=arguments, daemon=True)
            worker.start()
            there.close()
            self.pipes.append(here)
            self.workers.append(worker)

    def call(self, function: str, *arguments: Any) -> list[Any]:
        """What a function of this file gives on each rank."""
        for pipe in self.pipes:
            pipe.send((function, arguments))
        answers: dict[int, Any] = {}
        while len(answers) < RANKS:
            waiting = {pipe: r for r, pipe in enumerate(self.pipes) if r not in answers}
            ready = wait(waiting, TIMEOUT_S)
            assert ready, f"ranks {sorted(waiting.values())} did not answer"
            for pipe in ready:
                error, answers[waiting[pipe]] = pipe.recv()
                assert not error, error
        return [answers[rank] for rank in range(RANKS)]

    def close(self) -> None:
        for pipe, worker in zip(self.pipes, self.workers):
            pipe.close()
            worker.kill()
            worker.join()


def _serve(pipe: Any, rank: int, store: str) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.FileStore(store, RANKS), rank=rank, world_size=RANKS)
    while True:
        try:
            function, arguments = pipe.recv()
        except (EOFError, ConnectionError):
            return
        try:
            pipe.send((None, globals()[function](*arguments)))
        except Exception:
            pipe.send((traceback.format_exc(), None))


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

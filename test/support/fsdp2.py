"""PyTorch's FSDP2 on Gloo: one pool of worker processes for a test session.

Workers meet through a file, so no port is fixed; each task trains one step file
on the first `world` of them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pathlib
import tempfile
import traceback
from typing import Any, Callable, Iterator, Sequence
from unittest import mock

from support.policies import Call, apply_calls
from support.reference import Trained

TIMEOUT_S = 240


class Pool:
    """`size` workers that stay up until close()."""

    def __init__(self, size: int = 4):
        # A fork server imports PyTorch once for all of them.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch.distributed.fsdp"])
        self.folder = tempfile.TemporaryDirectory()
        store = os.path.join(self.folder.name, "store")
        self.pipes, self.workers = [], []
        for rank in range(size):
            here, there = context.Pipe()
            worker = context.Process(target=serve, args=(there, rank, size, store), daemon=True)
            worker.start()
            there.close()
            self.pipes.append(here)
            self.workers.append(worker)

    def train(
        self,
        step_file: pathlib.Path,
        world: int,
        steps: int,
        argv: Sequence[str] = (),
        units: Sequence[str | Call] = (),
    ) -> Trained:
        """Trains `step_file` under fully_shard; `units` are the modules that
        are sharded as units of their own, or whole calls. The root takes the
        rest, in a call of its own where there is none."""
        calls = [Call((unit,)) if isinstance(unit, str) else unit for unit in units]
        if all(call.paths != ("",) for call in calls):
            calls.append(Call(("",)))
        task = (str(step_file), list(argv), world, steps, calls)
        for pipe in self.pipes[:world]:
            pipe.send(task)
        answers = [self.answer(rank) for rank in range(world)]
        losses = [list(row) for row in zip(*(answer[0] for answer in answers))]
        return Trained(losses, *answers[0][1:])

    def answer(self, rank: int) -> Any:
        if not self.pipes[rank].poll(TIMEOUT_S):
            raise TimeoutError(f"FSDP2's rank {rank} did not answer")
        error, value = self.pipes[rank].recv()
        if error:
            raise RuntimeError(f"FSDP2's rank {rank} failed:\n{error}")
        return value

    def close(self) -> None:
        for pipe in self.pipes:
            try:
                pipe.send(None)
            except OSError:
                pass
        for worker in self.workers:
            worker.join(10)
            if worker.is_alive():
                worker.kill()
        self.folder.cleanup()


def serve(pipe: Any, rank: int, size: int, store: str) -> None:
    """One worker: answers tasks until it is sent None."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh

    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.FileStore(store, size), rank=rank, world_size=size)
    # Every process takes part in making every group.
    groups = {world: dist.new_group(range(world)) for world in range(1, size + 1)}
    while (task := pipe.recv()) is not None:
        try:
            mesh = DeviceMesh.from_group(groups[task[2]], "cpu")
            pipe.send((None, train(mesh, rank, *task)))
        except BaseException:
            pipe.send((traceback.format_exc(), None))
    dist.destroy_process_group()


def train(
    mesh: Any,
    rank: int,
    step_file: str,
    argv: list[str],
    world: int,
    steps: int,
    calls: list[Call],
) -> tuple[list[float], dict[str, Any], dict[tuple[str, str], int]]:
    import torch
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    from support.reference import batches, learning_rate_setter, load_step

    step = load_step(step_file, argv)
    model = step.model
    name_of = {id(p): name for name, p in model.named_parameters()}
    apply_calls(fully_shard, model, calls, mesh=mesh)
    # The optimizer was made for the whole parameters; it has no state yet.
    sharded = dict(model.named_parameters())
    for group in step.optimizer.param_groups:
        group["params"] = [sharded[name_of[id(p)]] for p in group["params"]]

    set_rates = learning_rate_setter(step)
    losses, counts = [], {}
    torch.manual_seed(step.seed)
    for i, batch in zip(range(steps), batches(step, rank, world)):
        set_rates(i)
        step.optimizer.zero_grad()
        # The second step: the first one also sets FSDP2 up.
        with counting(counts, "forward", i == 1):
            loss = step.loss(model, **batch)
        with counting(counts, "backward", i == 1):
            loss.backward()
        step.optimizer.step()
        losses.append(loss.item())
    state = {}
    for name, value in model.state_dict().items():
        whole = value.full_tensor() if isinstance(value, DTensor) else value
        state[name] = whole.detach().clone()
    return losses, state if rank == 0 else {}, counts


@contextlib.contextmanager
def counting(counts: dict[tuple[str, str], int], region: str, active: bool) -> Iterator[None]:
    """Counts the collectives of what runs inside, as a run's summary does."""
    import torch.distributed as dist

    def counted(function: Callable, key: tuple[str, str]) -> Callable:
        def call(*args: Any, **options: Any) -> Any:
            counts[key] = counts.get(key, 0) + 1
            return function(*args, **options)

        return call

    kinds = {"all_gather_into_tensor": "all-gather", "reduce_scatter_tensor": "reduce-scatter"}
    with contextlib.ExitStack() as stack:
        for name, kind in kinds.items() if active else ():
            function = counted(getattr(dist, name), (kind, region))
            stack.enter_context(mock.patch.object(dist, name, function))
        yield

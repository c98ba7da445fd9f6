"""PyTorch's FSDP2 on Gloo: one pool of worker processes for a test session.

Workers meet through a file, so no port is fixed. They start with the first
training, and end with the session, or when they see that it has died.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import multiprocessing
import os
import tempfile
import traceback
from multiprocessing.connection import wait
from typing import Any, Callable, Iterable, Iterator
from unittest import mock

from support.policies import apply_calls
from support.reference import Trained
from support.training import Training

TIMEOUT_S = 240


class Pool:
    """`size` workers that stay up until close(). One that fails takes the
    others with it, since they wait for it: the next training starts new ones.
    What has been trained is kept."""

    def __init__(self, size: int = 4):
        self.size = size
        self.pipes: list[Any] = []
        self.workers: list[Any] = []
        self.folder: tempfile.TemporaryDirectory | None = None
        self.task = 0
        self.trained: dict[str, Trained] = {}

    def train(self, training: Training) -> Trained:
        return self.start(training)()

    def start(self, training: Training) -> Callable[[], Trained]:
        """Begins to train; what it returns waits for the end. Only the
        training that was begun last has an end."""
        assert training.world <= self.size
        if repr(training) in self.trained:
            return lambda: copy.deepcopy(self.trained[repr(training)])
        if not self.workers:
            self.open()
        self.task += 1
        for pipe in self.pipes:
            pipe.send((self.task, training))
        task = self.task
        return lambda: self.finish(task, training)

    def finish(self, task: int, training: Training) -> Trained:
        assert task == self.task, "another training was begun in between"
        world = training.world
        answers: dict[int, Any] = {}
        while len(answers) < world:
            waiting = {self.pipes[rank]: rank for rank in range(world) if rank not in answers}
            ready = wait(waiting, TIMEOUT_S)
            for pipe in ready:
                number, error, value = self.read(pipe, waiting[pipe])
                if error:
                    self.close()
                    raise RuntimeError(f"FSDP2's rank {waiting[pipe]} failed:\n{error}")
                if number == task:
                    answers[waiting[pipe]] = value
            if not ready:
                self.close()
                raise TimeoutError(f"FSDP2's ranks {sorted(waiting.values())} did not answer")
        losses = [list(row) for row in zip(*(answers[rank].pop("losses") for rank in range(world)))]
        self.trained[repr(training)] = Trained(losses, **answers[0])
        return copy.deepcopy(self.trained[repr(training)])

    def read(self, pipe: Any, rank: int) -> tuple[int, str | None, Any]:
        try:
            return pipe.recv()
        except EOFError:
            return 0, f"it ended with exit code {self.workers[rank].exitcode}", None

    def open(self) -> None:
        # A fork server imports PyTorch once for all of them, with what the first step needs.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch.distributed.fsdp", "torch._dynamo"])
        self.folder = tempfile.TemporaryDirectory()
        store = os.path.join(self.folder.name, "store")
        for rank in range(self.size):
            here, there = context.Pipe()
            arguments = (there, rank, self.size, store)
            worker = context.Process(target=serve, args=arguments, daemon=True)
            worker.start()
            there.close()
            self.pipes.append(here)
            self.workers.append(worker)

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for worker in self.workers:
            worker.kill()
            worker.join()
        if self.folder:
            self.folder.cleanup()
        self.pipes, self.workers, self.folder = [], [], None


def serve(pipe: Any, rank: int, size: int, store: str) -> None:
    """One worker: answers tasks until the other end of its pipe is gone."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.FileStore(store, size), rank=rank, world_size=size)
    keep_groups()
    meshes: dict[tuple[int, ...], Any] = {}
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            task, training = pipe.recv()
            try:
                # Every worker takes part in making a mesh, also of a part of them.
                if training.mesh not in meshes:
                    meshes[training.mesh] = mesh_of(training)
                value = None
                if rank < training.world:
                    value = train(meshes[training.mesh], rank, training)
                pipe.send((task, None, value))
            except Exception:
                pipe.send((task, traceback.format_exc(), None))


def keep_groups() -> None:
    """FSDP2 makes groups anew for each module that keeps smaller shards. A group lives as long as
    its process, and a thread of each wakes a hundred times a second."""
    from torch.distributed import device_mesh

    new_group: Any = device_mesh.new_group
    made: dict[tuple[int, ...], Any] = {}

    def kept_group(ranks: list[int], **options: Any) -> Any:
        if tuple(ranks) not in made:
            made[tuple(ranks)] = new_group(ranks=ranks, **options)
        return made[tuple(ranks)]

    device_mesh.new_group = kept_group


def mesh_of(training: Training) -> Any:
    import torch
    from torch.distributed.device_mesh import DeviceMesh

    ranks = torch.arange(training.world).view(training.mesh)
    return DeviceMesh("cpu", ranks, mesh_dim_names=training.mesh_dims)


def train(mesh: Any, rank: int, training: Training) -> dict[str, Any]:
    """The fields of Trained: one rank's losses, and on rank 0 the others."""
    import torch
    from torch.distributed import fsdp

    from support.reference import batches, learning_rate_setter, share
    from support.training import load

    step = load(training)
    model = step.model
    name_of = {id(p): name for name, p in model.named_parameters()}
    apply_calls(fsdp, model, training.calls, mesh)
    # The optimizer was made for the whole parameters; it has no state yet.
    sharded = dict(model.named_parameters())
    for group in step.optimizer.param_groups:
        group["params"] = [sharded[name_of[id(p)]] for p in group["params"]]

    set_rates = learning_rate_setter(step)
    trained = [p for p in model.parameters() if p.requires_grad]
    losses: list[float] = []
    norms: list[float] = []
    scales: list[float] = []
    counts: dict[tuple[str, str], int] = {}
    gathers: list[tuple[str, str]] = []
    gathering: dict[str, set[int]] = {}
    torch.manual_seed(step.seed)
    feed = batches(step, rank, training.world)
    for i in range(training.steps):
        set_rates(i)
        micro_batches = list(itertools.islice(feed, step.accumulate))
        total = 0.0
        for turn in step.turns:
            step.optimizer.zero_grad()
            for m, batch in enumerate(micro_batches):
                if step.accumulate > 1:
                    last = m + 1 == step.accumulate
                    if training.reduces_each:
                        model.set_requires_all_reduce(last)
                    else:
                        model.set_requires_gradient_sync(last)
                # The second step: the first one also sets FSDP2 up.
                with (
                    counting(counts, gathering, "forward", i == 1),
                    listing(gathers, "forward", i == 1),
                ):
                    loss = turn.loss(model, **batch)
                with (
                    counting(counts, gathering, "backward", i == 1),
                    listing(gathers, "backward", i == 1),
                ):
                    part = share(loss, step)
                    (step.scaler.scale(part) if step.scaler else part).backward()
                total += loss.item()
            if step.scaler:
                scales.append(step.scaler.get_scale())
                step.scaler.unscale_(turn.optimizer)
            groups = turn.optimizer.param_groups
            own = [p for group in groups for p in group["params"]] if turn.name else trained
            norms.append(clip(step, own))
            if step.scaler:
                step.scaler.step(turn.optimizer)
                step.scaler.update()
            else:
                turn.optimizer.step()
        losses.append(total / step.accumulate)
    state = {name: whole(value).clone() for name, value in model.state_dict().items()}
    first = {
        "state": state,
        "collectives": counts,
        "gathers": gathers,
        "gathering": gathering,
        "grad_norms": norms,
        "scales": scales,
    }
    return {"losses": losses, **(first if rank == 0 else {})}


def total_norm(gradients: Iterable[Any]) -> float:
    """Of all ranks' parts, and of what this rank has of its own."""
    import torch

    kinds: dict[type, list[Any]] = {}
    for gradient in gradients:
        kinds.setdefault(type(gradient), []).append(gradient)
    return math.hypot(*(whole(torch.nn.utils.get_total_norm(g)).item() for g in kinds.values()))


def clip(step: Any, parameters: list[Any]) -> float:
    """Clips gradients as the step asks for; their norm before."""
    from torch.nn import utils

    if step.clip_grad_norm:
        return whole(utils.clip_grad_norm_(parameters, *step.clip_grad_norm)).item()
    norm = total_norm(p.grad for p in parameters if p.grad is not None)
    if step.clip_grad_value:
        utils.clip_grad_value_(parameters, step.clip_grad_value)
    return norm


def whole(value: Any) -> Any:
    """The tensor of which a DTensor is a part; every rank takes part."""
    from torch.distributed.tensor import DTensor

    return (value.full_tensor() if isinstance(value, DTensor) else value).detach()


@contextlib.contextmanager
def counting(
    counts: dict[tuple[str, str], int],
    gathering: dict[str, set[int]],
    region: str,
    active: bool,
) -> Iterator[None]:
    """Counts the collectives of what runs inside, as a run's summary does, and notes how many
    ranks gather."""
    import torch.distributed as dist

    def counted(function: Callable, key: tuple[str, str]) -> Callable:
        def call(*args: Any, **options: Any) -> Any:
            counts[key] = counts.get(key, 0) + 1
            if key[0] == "all-gather" and "group" in options:  # else the step's own
                gathering.setdefault(region, set()).add(options["group"].size())
            return function(*args, **options)

        return call

    kinds = {
        "all_gather_into_tensor": "all-gather",
        "reduce_scatter_tensor": "reduce-scatter",
        "all_reduce": "all-reduce",
    }
    with contextlib.ExitStack() as stack:
        for name, kind in kinds.items() if active else ():
            function = counted(getattr(dist, name), (kind, region))
            stack.enter_context(mock.patch.object(dist, name, function))
        yield


@contextlib.contextmanager
def listing(gathers: list[tuple[str, str]], region: str, active: bool) -> Iterator[None]:
    """Lists what is gathered inside, by its first parameter."""
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group as groups

    function = groups.foreach_all_gather

    def listed(parameters: list[Any], *args: Any) -> Any:
        gathers.append((parameters[0]._param_fqn, region))
        return function(parameters, *args)

    with mock.patch.object(groups, "foreach_all_gather", listed if active else function):
        yield

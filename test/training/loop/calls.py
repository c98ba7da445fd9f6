"""What ranks are asked to do. Each function runs on both of them."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
import warnings
from typing import Any

import torch
from .faults import full_disk, loader_of
from .step import BATCH, SEED, Model, samples
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

import fsdp_mlir

STORE = ""  # of PyTorch's process group


def batches(micro_batches: int = 1, rank: int | None = None, world: int | None = None) -> Any:
    """This rank's, epoch after epoch, from PyTorch's own loader."""
    rank = int(os.environ.get("RANK", 0)) if rank is None else rank
    world = int(os.environ.get("WORLD_SIZE", 1)) if world is None else world
    data = samples()
    dataset = TensorDataset(data["x"], data["y"])
    sampler = DistributedSampler(dataset, world, rank, seed=SEED, drop_last=True)
    loader = DataLoader(dataset, BATCH * micro_batches, sampler=sampler, drop_last=True)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        for x, y in loader:
            yield {"x": x, "y": y}
        epoch += 1


def train(plan: str, weights: str, saved: str, steps: int, **how: Any) -> dict[str, Any]:
    """An own loop: losses are means over ranks."""
    feed = batches()
    with fsdp_mlir.load(plan, weights, **how) as run:
        rows = []
        for _ in range(steps):
            loss = run(next(feed))
            rows.append(run.mean({"loss": loss, "accuracy": run.metrics["accuracy"]}))
        run.save(saved)
        return {"rows": rows, "transport": run._session.transport}


def train_by_keywords(arguments: dict[str, Any]) -> dict[str, Any]:
    return train(**arguments)


def outcome(call: Any) -> tuple[str, str]:
    """The class of what it raises, and its words."""
    try:
        call()
    except BaseException as error:
        return type(error).__name__, getattr(error, "message", str(error))
    return "", ""


class Broken(Dataset):
    """Fails at the second sample of the second worker's first batch."""

    def __len__(self) -> int:
        return 4 * BATCH

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if index == BATCH + 1:
            raise ValueError("no more pictures")
        return {name: tensor[index] for name, tensor in samples().items()}


def fail_on_rank_1(
    plan: str, weights: str, meeting: str, comm: str, how: str, over: str = ""
) -> Any:
    """Rank 1 goes wrong after a step; what each rank's next call raises, and how long it took."""
    feed = batches()
    limits = {"timeout": 3.0} if how == "hang" else {}
    run = fsdp_mlir.load(plan, weights, rendezvous=meeting, comm=comm, **limits)
    run(next(feed))
    if how == "death":
        run.checkpoint(f"{over}-checkpoints")
    begin = time.monotonic()
    batch = next(feed)
    if run.rank == 1 and how == "batch":
        batch.pop("y")
    if run.rank == 1 and how == "call":
        outcome(lambda: run(batch["x"], batch["y"]))
    if run.rank == 1 and how == "close":
        run.close()
    if run.rank == 1 and how == "exception":

        def leave() -> None:
            with run:
                for batch in list(DataLoader(Broken(), BATCH)):
                    run(batch)

        outcome(leave)
    if run.rank == 1 and how == "hang":
        while not os.path.exists(over):
            time.sleep(0.05)
    if run.rank == 1 and how == "death":
        os.kill(os.getpid(), signal.SIGKILL)
    said = outcome(lambda: run(batch))
    if how == "hang":
        open(over, "w").close()
    return said, outcome(lambda: run(batch)), time.monotonic() - begin


def train_from_loader(plan: str, weights: str, meeting: str, fault: str) -> tuple[str, str]:
    """What a loop over a loader with workers raises, where rank 1's has a fault."""

    def loop() -> None:
        loader = loader_of(fault if os.environ["RANK"] == "1" else "")
        with fsdp_mlir.load(plan, weights, rendezvous=meeting, non_finite="stop") as run:
            for batch in loader:
                run(batch)

    return outcome(loop)


def write_on_full_disk(plan: str, weights: str, meeting: str, folder: str) -> Any:
    """What a checkpoint and a file of weights raise where rank 0 has no room for them; and the
    checkpoint of the next step, when it has."""
    feed = batches()
    with fsdp_mlir.load(plan, weights, rendezvous=meeting) as run:
        run(next(feed))
        with full_disk() if run.rank == 0 else contextlib.nullcontext():
            checkpoint = outcome(lambda: run.checkpoint(folder))
            saved = outcome(lambda: run.save(f"{folder}-weights.safetensors"))
        run(next(feed))
        return (checkpoint, saved), str(run.checkpoint(folder))


def load_different(plans: list[str], weights: str, meeting: str) -> tuple[str, str]:
    plan = plans[int(os.environ["RANK"])]
    return outcome(lambda: fsdp_mlir.load(plan, weights, rendezvous=meeting))


def save_on_rank_0_alone(plan: str, weights: str, meeting: str, saved: str) -> tuple[str, str]:
    run = fsdp_mlir.load(plan, weights, rendezvous=meeting)

    def loop() -> None:
        run(next(batches()))
        if run.rank == 0:
            run.save(saved)
        run(next(batches()))

    return outcome(loop)


def open_and_close(plan: str, weights: str, meetings: list[str], comm: str) -> None:
    """Each rank leaves as soon as it has what it waits for."""
    for meeting in meetings:
        run = fsdp_mlir.load(plan, weights, rendezvous=meeting, comm=comm)
        run(next(batches()))
        run.close()


def join_process_group() -> None:
    import torch.distributed as dist

    if not dist.is_initialized():
        store = dist.FileStore(STORE, int(os.environ["WORLD_SIZE"]))
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world)


def save_states(plan: str, weights: str, meeting: str, folder: str) -> dict[str, Any]:
    """Trains, and saves the states by torch.distributed.checkpoint; what they are, and the losses
    of a run that goes on with them and of another one that loads them into its own."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.tensor import DTensor

    join_process_group()
    feed = batches()
    with fsdp_mlir.load(plan, weights, rendezvous=meeting) as run:
        for _ in range(3):
            run(next(feed))
        states = run.state_dict(optimizer=True)
        dcp.save(states, checkpoint_id=folder)
        found = {
            "kinds": {name: type(value).__name__ for name, value in states.items()},
            "placements": {
                name: str(value.placements)
                for name, value in states.items()
                if isinstance(value, DTensor)
            },
            "whole": {
                name: (value.full_tensor() if isinstance(value, DTensor) else value).clone()
                for name, value in states.items()
            },
        }
        run.save(folder + ".safetensors")
        run.copy_to(model := Model())
        found["copied"] = model.state_dict()
        rest = [next(feed) for _ in range(2)]
        views = {name: value for name, value in states.items() if name.startswith("head")}
        before = {name: value.to_local().clone() for name, value in views.items()}
        found["losses"] = [run(batch).item() for batch in rest]
        found["moved"] = [
            not torch.equal(value.to_local(), before[name]) for name, value in views.items()
        ]
    return found


def load_into_fsdp2(folder: str) -> dict[str, torch.Tensor]:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_state_dict,
        set_state_dict,
    )
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    join_process_group()
    torch.manual_seed(99)
    model = fully_shard(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    flat = StateDictOptions(flatten_optimizer_state_dict=True)
    own, states = get_state_dict(model, optimizer, options=flat)
    options = {name: states.pop(name) for name in list(states) if name.startswith("param_groups")}
    dcp.load(own | states, checkpoint_id=folder)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=own,
        optim_state_dict=states | options,
        options=flat,
    )
    own, states = get_state_dict(model, optimizer, options=flat)
    return {
        name: value.full_tensor() if isinstance(value, DTensor) else value
        for name, value in (own | states).items()
        if not name.startswith("param_groups")
    }


def load_into_run(plan: str, weights: str, meeting: str, folder: str) -> dict[str, Any]:
    """The next losses of a run that takes the states of the checkpoint, and what it refuses."""
    import torch.distributed.checkpoint as dcp

    join_process_group()
    feed = batches()
    with fsdp_mlir.load(plan, weights, rendezvous=meeting) as run:
        states = run.state_dict(optimizer=True)
        dcp.load(states, checkpoint_id=folder)
        run.load_state_dict(states)
        wrong = {"unknown": states["head.bias"], "head.bias": torch.zeros(4)}
        refused = [outcome(lambda: run.load_state_dict({n: v})) for n, v in wrong.items()]
        following = itertools.islice(feed, run.step, run.step + 2)
        return {"step": run.step, "losses": [run(b).item() for b in following], "refused": refused}


def whole_states(plan: str, weights: str, meeting: str) -> dict[str, torch.Tensor]:
    """Of a process without PyTorch's process group."""
    import torch.distributed as dist

    assert not dist.is_initialized()
    with fsdp_mlir.load(plan, weights, rendezvous=meeting) as run:
        run(next(batches()))
        states = {name: value.clone() for name, value in run.state_dict().items()}
        run.copy_to(model := Model())
        assert all(torch.equal(model.state_dict()[name], states[name]) for name in states)
        return states


def sleep_on_rank_1(
    plan: str, weights: str, meeting: str, comm: str, signals: int, over: str
) -> Any:
    """Rank 0 is interrupted while it waits for rank 1, which does nothing until the file `over` is
    there."""
    run = fsdp_mlir.load(plan, weights, rendezvous=meeting, comm=comm)
    feed = batches()
    run(next(feed))
    if run.rank == 1:
        while not os.path.exists(over):
            time.sleep(0.05)
        return outcome(lambda: run(next(feed)))
    import threading

    def interrupt() -> None:
        for _ in range(signals):
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    result = outcome(lambda: run(next(feed)))
    open(over, "w").close()
    return result


def compile_and_train(
    meeting: str, cache: str, steps: int, pipeline: str, timeout: float = 1800
) -> list[float]:
    from .step import training_step

    feed = batches()
    how = {"rendezvous": meeting, "cache_dir": cache, "pipeline": pipeline}
    with fsdp_mlir.compile(training_step([]), **how, timeout=timeout) as run:
        return [run.mean({"loss": run(next(feed))})["loss"] for _ in range(steps)]


def said_of_the_model(meeting: str, cache: str, pipeline: str) -> list[list[str]]:
    """What is said where the model has the run's values, where it is read, and where it is
    written."""
    from .step import training_step

    step, batch = training_step([]), next(batches())
    model, said = step.model, []
    start = {name: value.clone() for name, value in model.state_dict().items()}

    def give_back() -> None:
        run.copy_to(model)
        model.first.weight.sum()
        run.load_state_dict(start)
        run(batch)

    def write() -> None:
        model.load_state_dict(start)
        run(batch)

    how = {"rendezvous": meeting, "cache_dir": cache, "pipeline": pipeline}
    with fsdp_mlir.compile(step, **how) as run:
        run(batch)
        for use in (give_back, lambda: model.first.weight.sum(), write):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always", RuntimeWarning)
                use()
            said.append([str(w.message) for w in found if w.category is RuntimeWarning])
    return said


def compile_badly(meeting: str, cache: str) -> tuple[str, str]:
    return outcome(lambda: compile_and_train(meeting, cache, 1, "shard-layuot=flat"))


def train_on_shapes(plan: str, weights: str, meeting: str, saved: str, steps: int) -> Any:
    """Losses of batches of several shapes; what is said where ranks differ, after the first step
    and in an evaluation; and how the run ends at a shape that no program has."""
    from . import shapes_step

    run = fsdp_mlir.load(plan, weights, rendezvous=meeting)
    feed = shapes_step.batches(run.rank)
    losses = [run.mean({"loss": run(next(feed))})["loss"]]
    own = shapes_step.samples(*shapes_step.SHAPES[2 * run.rank])
    apart = [outcome(lambda: run(own)), outcome(lambda: run.eval(own))]
    losses += [run.mean({"loss": run(next(feed))})["loss"] for _ in range(steps - 1)]
    run.save(saved)
    other = shapes_step.samples(3 if run.rank else 4, 8)
    return losses, apart, outcome(lambda: run(other))


def evaluate_turns(plan: str, weights: str, meeting: str) -> list[dict[str, float]]:
    """What a batch gives, before a step of several losses and behind it."""
    from . import turns_step

    with fsdp_mlir.load(plan, weights, rng="sequential", rendezvous=meeting) as run:
        batch = turns_step.samples(turns_step.BATCH, seed=run.rank)
        before = run.eval(batch)
        run(batch)
        return [before, run.eval(batch)]

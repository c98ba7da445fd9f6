"""PyTorch's own training of a step file: what a compiled run is held against.

Both sides must see the same batches, so the order of samples is taken from
torch.utils.data.DistributedSampler itself.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from typing import Any, Callable, Iterator, Sequence

import torch
from torch.utils.data import DistributedSampler

Tensors = dict[str, torch.Tensor]


@dataclasses.dataclass
class Trained:
    """`losses[i][r]` is rank r's loss in step i; `state` is the state_dict
    after the last step, whole tensors (buffers are rank 0's)."""

    losses: list[list[float]]
    state: Tensors
    # Of one step, where they were counted: by kind and region.
    collectives: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    # Of the same step: the first parameter and region of each gather, in the order of starts.
    gathers: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    # And how many ranks its gathers are among, by region.
    gathering: dict[str, set[int]] = dataclasses.field(default_factory=dict)
    # Of each step's gradients before they are clipped, over all ranks' parts.
    grad_norms: list[float] = dataclasses.field(default_factory=list)
    # The loss's, of each step, where the step has a scaler.
    scales: list[float] = dataclasses.field(default_factory=list)

    @property
    def mean_losses(self) -> list[float]:
        """Over ranks, summed in rank order, in double: as fsdp-run logs it."""
        return [sum(ranks) / len(ranks) for ranks in self.losses]


def load_step(step: pathlib.Path | str | Callable, argv: Sequence[str] = ()) -> Any:
    """Calls the training_step of a step file (or a function of that kind)."""
    if callable(step):
        return step(list(argv))
    from fsdp_mlir.step.training_step import load_training_step

    return load_training_step(step, list(argv))


def batches(step: Any, rank: int, world: int) -> Iterator[Tensors]:
    """One rank's batches, epoch after epoch without end. Samples are taken in
    the order of DistributedSampler and DataLoader(drop_last=True); batches that
    fill no step at an epoch's end are left out."""
    data = step.data
    if data is None:
        yield from itertools.repeat(dict(step.inputs))
        return
    samples = len(next(iter(data.values())))
    local = len(step.inputs[next(iter(data))])
    sampler = DistributedSampler(
        range(samples),
        num_replicas=world,
        rank=rank,
        shuffle=True,
        seed=step.seed,
        drop_last=True,
    )
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        order = torch.tensor(list(sampler))
        whole = len(order) // (local * step.accumulate) * local * step.accumulate
        for start in range(0, whole, local):
            chosen = order[start : start + local]
            yield {
                name: data[name][chosen] if name in data else value
                for name, value in step.inputs.items()
            }


def forward_and_backward(step: Any, feed: Iterator[Tensors]) -> float:
    """One step's micro-batches, as a user of PyTorch accumulates gradients;
    returns the mean of their losses."""
    losses = []
    for _, batch in zip(range(step.accumulate), feed):
        loss = step.loss(step.model, **batch)
        share(loss, step).backward()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def share(loss: torch.Tensor, step: Any) -> torch.Tensor:
    """A micro-batch's part of the step's loss."""
    return loss / step.accumulate if step.accumulate > 1 else loss


def learning_rate_setter(step: Any) -> Callable[[int], None]:
    """A function that puts step i's learning rates (0-based) in place; to be
    called before each step, in order."""
    schedule = step.lr_schedule
    if schedule is None:
        return lambda i: None
    if hasattr(schedule, "step"):
        return lambda i: schedule.step() if i else None
    base = [group["lr"] for group in step.optimizer.param_groups]

    def put(i: int) -> None:
        for group, rate in zip(step.optimizer.param_groups, base):
            group["lr"] = rate * schedule(i)

    return put


def snapshot(model: torch.nn.Module) -> Tensors:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def eager(step: Any, steps: int) -> Trained:
    """Plain PyTorch on one rank, as a user would write it."""
    set_rates = learning_rate_setter(step)
    losses = []
    torch.manual_seed(step.seed)
    feed = batches(step, 0, 1)
    for i in range(steps):
        set_rates(i)
        step.optimizer.zero_grad()
        losses.append([forward_and_backward(step, feed)])
        if step.clip_grad_norm:
            torch.nn.utils.clip_grad_norm_(step.model.parameters(), *step.clip_grad_norm)
        step.optimizer.step()
    return Trained(losses, snapshot(step.model))


def trained(step: Any, world: int, steps: int) -> Trained:
    """By PyTorch, with what libraries leave to chance fixed or drawn as a compiled step does."""
    from fsdp_mlir.capture.operators.library_defaults import every_layer, one_size_of_images
    from fsdp_mlir.capture.operators.spec_augment import spans_by_torch

    with every_layer(step.model), spans_by_torch(step.model), one_size_of_images():
        return eager(step, steps) if world == 1 else averaged(step, world, steps)


def assert_same_bits(losses: list[float], weights: Tensors, trained: Trained) -> None:
    """The losses and weights of a run are those of the reference."""
    assert losses == trained.mean_losses
    assert sorted(weights) == sorted(trained.state)
    for name, tensor in trained.state.items():
        assert torch.equal(weights[name], tensor), name


def averaged(step: Any, world: int, steps: int) -> Trained:
    """Data-parallel training emulated on one process: every rank's gradient
    by eager PyTorch, their sum in rank order, one division, one update. Each
    rank has its own buffers, frozen parameters (which its forward may change)
    and its own random stream, all seeded alike. What its forward sets trained
    parameters to, each rank's does."""
    model = step.model
    parameters = list(model.parameters())
    feeds = [batches(step, rank, world) for rank in range(world)]
    frozen = [p for p in parameters if not p.requires_grad]
    own = [_clones(model, frozen) for _ in range(world)]
    set_rates = learning_rate_setter(step)
    torch.manual_seed(step.seed)
    streams = [torch.get_rng_state()] * world
    losses = []
    for i in range(steps):
        set_rates(i)
        totals: list[torch.Tensor | None] = [None] * len(parameters)
        row = []
        begun = [parameter.detach().clone() for parameter in parameters]
        for rank in range(world):
            for parameter, value in zip(parameters, begun):
                parameter.data.copy_(value)
            exchange(model, frozen, own[rank])
            step.optimizer.zero_grad()
            torch.set_rng_state(streams[rank])
            row.append(forward_and_backward(step, feeds[rank]))
            streams[rank] = torch.get_rng_state()
            own[rank] = _clones(model, frozen)
            for index, parameter in enumerate(parameters):
                gradient = parameter.grad
                if gradient is None:
                    continue
                total = totals[index]
                totals[index] = gradient.clone() if total is None else total + gradient
        for parameter, total in zip(parameters, totals):
            parameter.grad = None if total is None else total / world
        step.optimizer.step()
        for index, parameter in enumerate(frozen, start=-len(frozen)):
            if parameter.grad is not None:  # no longer frozen: the update is everyone's
                for tensors in own:
                    tensors[index] = parameter.detach().clone()
        losses.append(row)
    exchange(model, frozen, own[0])
    return Trained(losses, snapshot(model))


def _clones(model: torch.nn.Module, frozen: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in (*model.buffers(), *frozen)]


@torch.no_grad()
def exchange(
    model: torch.nn.Module, frozen: list[torch.nn.Parameter], values: list[torch.Tensor]
) -> None:
    for buffer, value in zip((*model.buffers(), *frozen), values):
        if buffer.shape == value.shape:
            buffer.copy_(value)
        else:  # the first forward puts another one in its place, which the other ranks' do too
            buffer.data = value.clone()

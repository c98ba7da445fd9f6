"""A step with collectives of its own, each as a user writes it."""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn
from torch import Tensor, nn
from torch.distributed import all_gather, get_rank
from torch.nn import functional as F

from fsdp_mlir import TrainingStep


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
        self.head = nn.Linear(16, 8)
        self.register_buffer("center", torch.zeros(8))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def counted(model: Encoder, x: Tensor, y: Tensor) -> Tensor:
    """DETR's number of boxes: the mean of all ranks, at least 1. Python knows each rank's own."""
    boxes = torch.as_tensor([2 * len(x)], dtype=torch.float32)
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(boxes)
    total = torch.clamp(boxes / dist.get_world_size(), min=1).item()
    hit = (y > 0).sum()
    dist.all_reduce(hit)
    return model(x).square().sum() / total + hit / 100


def centered(model: Encoder, x: Tensor, y: Tensor) -> Tensor:
    """DINO's center: a buffer that follows the mean of all ranks' outputs."""
    z = model(x)
    loss = F.cross_entropy((z - model.center) / 0.1, y)
    with torch.no_grad():
        batch = z.sum(0)
        dist.all_reduce(batch)
        batch = batch / (len(z) * dist.get_world_size())
        model.center.mul_(0.9).add_(batch, alpha=0.1)
    return loss


def contrastive(model: Encoder, x: Tensor, y: Tensor) -> Tensor:
    """SimCLR and CLIP with gradients through the gather; labels are of this rank's rows."""
    z = F.normalize(model(x), dim=-1)
    everyone = torch.cat(torch.distributed.nn.all_gather(z), dim=0)
    labels = torch.arange(len(z)) + get_rank() * len(z)
    return F.cross_entropy(z @ everyone.T / 0.2, labels)


def queued(model: Encoder, x: Tensor, y: Tensor) -> Tensor:
    """MoCo's keys: gathered without a gradient."""
    z = F.normalize(model(x), dim=-1)
    keys = [torch.ones_like(z) for _ in range(dist.get_world_size())]
    all_gather(keys, z)
    return F.cross_entropy(z @ torch.cat(keys).T / 0.2, y)


def own_features(model: Encoder, x: Tensor, y: Tensor) -> Tensor:
    """CLIP without gradients through the gather: this rank's own features take their place again."""
    z = F.normalize(model(x), dim=-1)
    keys = [torch.zeros_like(z) for _ in range(dist.get_world_size())]
    dist.all_gather(keys, z)
    keys[dist.get_rank()] = z
    return F.cross_entropy(z @ torch.cat(keys).T / 0.2, y)


class Gather(torch.autograd.Function):
    """As Barlow Twins and SimCLR have it: with the gradients of all ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, ...]:
        parts = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        everyones = torch.stack(gradients)
        dist.all_reduce(everyones)
        return everyones.unbind()[dist.get_rank()]


def twins(model: Encoder, x: Tensor, y: Tensor) -> Tensor:
    one, two = (torch.cat(Gather.apply(model(view))) for view in (x, x + 0.1))
    one, two = ((z - z.mean(0)) / (z.std(0) + 1e-4) for z in (one, two))
    return (one.T @ two / len(one) - torch.eye(8)).square().sum()


def largest(model: Encoder, x: Tensor, y: Tensor) -> Tensor:
    """Scales by the largest and the least of all ranks, and by a number that the first one has."""
    z = model(x)
    top, least = z.detach().amax(), z.detach().amin()
    work = dist.all_reduce(top, op=dist.ReduceOp.MAX, async_op=True)
    dist.all_reduce(least, op=dist.ReduceOp.MIN)
    work.wait()
    first = z.detach().mean()
    dist.broadcast(first, src=0)
    return F.cross_entropy(z / (top - least + first.abs()), y)


def summed(model: Encoder, x: Tensor, y: Tensor) -> Tensor:
    """A sum with a gradient: the spread of all ranks' outputs."""
    z = model(x)
    ranks = dist.get_world_size()
    mean = torch.distributed.nn.all_reduce(z.mean(0)) / ranks
    return F.cross_entropy(z, y) + (z - mean).square().mean()


def scattered(model: Encoder, x: Tensor, y: Tensor) -> Tensor:
    """Pieces of a batch's sum, gathered again; and the first rank's own branch."""
    z = model(x)
    piece = torch.empty(8 // dist.get_world_size())
    dist.reduce_scatter_tensor(piece, z.detach().sum(0))
    whole = torch.empty(8)
    dist.all_gather_into_tensor(whole, piece)
    loss = F.cross_entropy(z + 0.01 * whole, y)
    if dist.get_rank() == 0:
        loss = loss * 2
    dist.barrier()
    return loss


def normalised(model: Encoder, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


FORMS = {
    form.__name__: form
    for form in (
        counted,
        centered,
        contrastive,
        queued,
        own_features,
        twins,
        largest,
        summed,
        scattered,
        normalised,
    )
}


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--form", choices=FORMS, required=True)
    parser.add_argument("--norm", choices=("SyncBatchNorm", "BatchNorm1d"))
    parser.add_argument("--batch", type=int, default=4)
    flags = parser.parse_args(argv)
    torch.manual_seed(0)
    model = Encoder()
    if flags.norm:
        model.body.append(getattr(nn, flags.norm)(16))
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(64, 6, generator=generator)
    y = torch.randint(8, (64,), generator=generator)
    return TrainingStep(
        model=model,
        loss=FORMS[flags.form],
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
        inputs={"x": x[: flags.batch], "y": y[: flags.batch]},
        data={"x": x, "y": y},
    )

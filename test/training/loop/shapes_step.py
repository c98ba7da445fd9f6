"""A step whose batches have several shapes, and PyTorch's own loop over such batches."""

from __future__ import annotations

import argparse
import itertools
from typing import Any, Iterator, Sequence

import torch
from torch import nn
from torch.nn import functional as F

from fsdp_mlir import TrainingStep

WORDS, SEED = 11, 3
SHAPES = ((4, 8), (4, 5), (2, 8))  # samples and their lengths
Batch = dict[str, torch.Tensor]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 6)
        self.hidden = nn.Linear(6, 9)
        self.head = nn.Linear(9, WORDS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.hidden(self.embedding(x)).cumsum(1)))


def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def samples(count: int, length: int, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randint(WORDS, (count, length), generator=generator) for name in "xy"}


def batches(rank: int = 0) -> Iterator[Batch]:
    """Of the shapes in turn, in an order that is the same on all ranks."""
    for number in itertools.count():
        yield samples(*SHAPES[(0, 1, 2, 2, 1)[number % 5]], seed=100 * rank + number)


def buckets(rank: int = 0) -> Iterator[Batch]:
    for number in itertools.count():
        yield samples(*SHAPES[number % 3 % 2], seed=100 * rank + number)


def fresh() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = Model()
    return model, torch.optim.AdamW(model.parameters(), lr=0.02)


def eager(steps: Sequence[Sequence[Batch]]) -> tuple[list[float], dict[str, torch.Tensor]]:
    """PyTorch's own loop over steps of a batch for each rank: the mean losses, and the weights."""
    model, optimizer = fresh()
    losses = []
    for of_ranks in steps:
        value = torch.stack([loss(model, **batch) for batch in of_ranks]).mean()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    return losses, model.state_dict()


class Buckets:
    """An endless loader."""

    def __iter__(self) -> Iterator[Any]:
        import os

        return buckets(int(os.environ["RANK"]))


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("loop", "rest", "buckets"))
    kind = parser.parse_args(argv).kind
    model, optimizer = fresh()
    shapes = {"loop": SHAPES, "rest": (SHAPES[0], SHAPES[2]), "buckets": SHAPES[:2]}[kind]
    data = {"loop": None, "rest": samples(14, 8), "buckets": Buckets()}[kind]
    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=optimizer,
        inputs=[samples(*shape) for shape in shapes],
        data=data,
        eval_data=samples(4, 8) if kind == "loop" else data if kind == "rest" else None,
        steps=9,
        seed=SEED,
    )

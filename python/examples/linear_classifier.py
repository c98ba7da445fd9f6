"""A linear classifier, the smallest job that shows learning.

    python -m fsdp_mlir.train --nproc 2 python/examples/linear_classifier.py

Linear 128 -> 10 with cross-entropy and SGD on 1,024 made-up samples. The labels
come from a fixed teacher of the same form, so they can be learned and the
accuracy printed for each epoch must rise.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F

from fsdp_mlir import TrainingStep

FEATURES, CLASSES = 128, 10


def samples(count: int, seed: int) -> dict[str, torch.Tensor]:
    """x: [count, 128] floats; y: [count] classes, the teacher's choice."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, FEATURES, generator=generator)
    teacher = torch.randn(FEATURES, CLASSES, generator=generator)
    return {"x": x, "y": (x @ teacher).argmax(dim=1)}


def loss(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def metrics(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"accuracy": (model(x).argmax(dim=1) == y).float().mean()}


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="linear_classifier.py", description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=32, help="on one rank")
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def training_step(argv: list[str]) -> TrainingStep:
    args = parse(argv)
    torch.manual_seed(args.seed)
    model = torch.nn.Linear(FEATURES, CLASSES)
    data = samples(args.samples, args.seed)
    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=args.lr),
        inputs={name: tensor[: args.batch_size] for name, tensor in data.items()},
        data=data,
        epochs=args.epochs,
        metrics=metrics,
        seed=args.seed,
    )

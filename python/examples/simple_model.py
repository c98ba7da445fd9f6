"""Two linear layers: several parameters of different shapes, and Adam's state.

    python -m fsdp_mlir.train --nproc 2 python/examples/simple_model.py

Linear 256 -> 256, ReLU, Linear 256 -> 10 with cross-entropy and Adam, on
made-up samples with labels from a fixed linear teacher.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F

from fsdp_mlir import TrainingStep

FEATURES, CLASSES = 256, 10


class SimpleModel(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(FEATURES, FEATURES)
        self.head = torch.nn.Linear(FEATURES, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch, 256]; returns logits [batch, 10]."""
        return self.head(F.relu(self.hidden(x)))


def samples(count: int, seed: int) -> dict[str, torch.Tensor]:
    """x: [count, 256] floats; y: [count] classes, the teacher's choice."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, FEATURES, generator=generator)
    teacher = torch.randn(FEATURES, CLASSES, generator=generator)
    return {"x": x, "y": (x @ teacher).argmax(dim=1)}


def loss(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simple_model.py", description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=32, help="on one rank")
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def training_step(argv: list[str]) -> TrainingStep:
    args = parse(argv)
    torch.manual_seed(args.seed)
    model = SimpleModel()
    data = samples(args.samples, args.seed)
    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=torch.optim.Adam(model.parameters(), lr=args.lr),
        inputs={name: tensor[: args.batch_size] for name, tensor in data.items()},
        data=data,
        epochs=args.epochs,
        seed=args.seed,
    )

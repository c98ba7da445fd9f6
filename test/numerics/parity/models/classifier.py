"""A linear classifier whose batches do not divide the data set."""

import argparse

import torch
from torch import nn

from fsdp_mlir import TrainingStep


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--nesterov", action="store_true")
    parser.add_argument("--weight-decay", type=float, default=0.0)
    flags = parser.parse_args(argv)

    generator = torch.Generator().manual_seed(1)
    samples, batch = 301, 8
    x = torch.randn(samples, flags.features, generator=generator)
    teacher = torch.randn(flags.features, flags.classes, generator=generator)
    y = (x @ teacher).argmax(1)

    torch.manual_seed(0)
    model = nn.Linear(flags.features, flags.classes)
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=0.01,
        momentum=flags.momentum,
        nesterov=flags.nesterov,
        weight_decay=flags.weight_decay,
    )

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(x), y)

    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=optimizer,
        inputs={"x": x[:batch], "y": y[:batch]},
        data={"x": x, "y": y},
        seed=3,
    )

"""A small step whose sizes two ranks do not divide: BatchNorm, dropout, Adam in two groups."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

from fsdp_mlir import TrainingStep

SAMPLES, BATCH, SEED = 52, 4, 3


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 9)
        self.norm = nn.BatchNorm1d(9)
        self.second = nn.Linear(9, 7)
        self.head = nn.Linear(7, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(self.norm(self.first(x)), 0.3, self.training)
        return self.head(F.relu(self.second(x)))


def samples(count: int = SAMPLES) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(count, 6, generator=generator)
    return {"x": x, "y": torch.randint(3, (count,), generator=generator)}


def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def squares(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (model(x).sum(1) - y).square().mean()


def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"accuracy": (model(x).argmax(1) == y).float().mean()}


def of_samples(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    """Of each sample, one with other strides, and a number."""
    logits = model(x)
    first = (model.first.weight @ x.t()).t()
    return {"logits": logits, "label": y, "first": first, "largest": logits.max()}


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--no-data", action="store_true")
    parser.add_argument("--schedule", action="store_true")
    parser.add_argument("--squares", action="store_true")
    flags = parser.parse_args(argv)
    torch.manual_seed(0)
    model = Model()
    head = list(model.head.parameters())
    rest = [p for p in model.parameters() if all(p is not one for one in head)]
    optimizer = torch.optim.AdamW([{"params": rest}, {"params": head, "lr": 0.02}], lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5) if flags.schedule else None
    data = samples()
    return TrainingStep(
        model=model,
        loss=squares if flags.squares else loss,
        optimizer=optimizer,
        lr_schedule=schedule,
        metrics=accuracy,
        outputs=of_samples,
        inputs={name: tensor[:BATCH] for name, tensor in data.items()},
        data=None if flags.no_data else data,
        eval_data=data,
        steps=12,
        seed=SEED,
        accumulate=flags.accumulate,
    )

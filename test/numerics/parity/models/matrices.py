"""A model under an optimizer that looks at whole matrices: three of one shape that no number of ranks
divides, two of another one, and some that are alone; vectors, and under Adafactor a tensor of four
dimensions."""

import argparse
from typing import Any

import torch
from torch import nn
from torch.optim import Adafactor, AdamW, Muon

from fsdp_mlir import TrainingStep


def first_layers(optimizer: str) -> list[nn.Module]:
    if optimizer == "muon":
        return [nn.Linear(13, 7)]
    return [nn.Unflatten(1, (1, 6, 6)), nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(48, 7)]


def make_optimizer(optimizer: str, model: nn.Module) -> Any:
    matrices = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() != 2]
    if optimizer == "muon":
        return [Muon(matrices, lr=0.02), AdamW(rest, lr=1e-2)]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "maximize": False}]
    return Adafactor(groups, lr=0.05)


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("optimizer", choices=("muon", "adafactor"))
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--clip", type=float)
    flags = parser.parse_args(argv)
    generator = torch.Generator().manual_seed(2)
    width = 13 if flags.optimizer == "muon" else 36
    x, y = (torch.randn(48, size, generator=generator) for size in (width, 9))
    torch.manual_seed(0)
    model = nn.Sequential(
        *first_layers(flags.optimizer),
        nn.LayerNorm(7),
        nn.Tanh(),
        *(nn.Linear(7, 7, bias=False) for _ in range(3)),
        nn.Linear(7, 8),
        nn.Tanh(),
        *(nn.Linear(8, 8, bias=False) for _ in range(2)),
        nn.Linear(8, 9),
    )

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(model(x), y)

    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=make_optimizer(flags.optimizer, model),
        inputs={"x": x[:4], "y": y[:4]},
        data={"x": x, "y": y},
        lr_schedule=lambda step: 0.95**step,
        steps=8,
        accumulate=flags.accumulate,
        clip_grad_norm=flags.clip,
    )

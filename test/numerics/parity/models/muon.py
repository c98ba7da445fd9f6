"""Matrices under Muon, vectors under AdamW: three matrices of one shape that no number of ranks
divides, two of another one, and some that are alone."""

import argparse

import torch
from torch import nn
from torch.optim import AdamW, Muon

from fsdp_mlir import TrainingStep


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--clip", type=float)
    flags = parser.parse_args(argv)
    generator = torch.Generator().manual_seed(2)
    x, y = (torch.randn(48, size, generator=generator) for size in (13, 9))
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(13, 7),
        nn.LayerNorm(7),
        nn.Tanh(),
        *(nn.Linear(7, 7, bias=False) for _ in range(3)),
        nn.Linear(7, 8),
        nn.Tanh(),
        *(nn.Linear(8, 8, bias=False) for _ in range(2)),
        nn.Linear(8, 9),
    )
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(model(x), y)

    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=[Muon(matrices, lr=0.02), AdamW(vectors, lr=1e-2)],
        inputs={"x": x[:4], "y": y[:4]},
        data={"x": x, "y": y},
        lr_schedule=lambda step: 0.95**step,
        steps=8,
        accumulate=flags.accumulate,
        clip_grad_norm=flags.clip,
    )

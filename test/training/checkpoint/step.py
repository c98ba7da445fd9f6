"""A step with all that a run must remember: dropout, BatchNorm, Adam's state, a schedule, an evaluation."""

import argparse

import torch
from torch import nn

from fsdp_mlir import TrainingStep

SAMPLES, BATCH, STEPS = 52, 4, 36


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=1)
    flags = parser.parse_args(argv)
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.Dropout(0.3)),
        *(nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3)),
    )
    data = {"x": torch.randn(SAMPLES, 6), "y": torch.randint(3, (SAMPLES,))}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return TrainingStep(
        model=model,
        loss=lambda model, x, y: nn.functional.cross_entropy(model(x), y),
        optimizer=optimizer,
        lr_schedule=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS),
        inputs={name: tensor[:BATCH] for name, tensor in data.items()},
        data=data,
        eval_data={name: tensor[:32] for name, tensor in data.items()},
        steps=STEPS,
        accumulate=flags.accumulate,
    )

"""The smallest training step: a weight and a bias."""

import argparse

import torch

from fsdp_mlir import TrainingStep


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fused", action="store_true")
    flags = parser.parse_args(argv)
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    return TrainingStep(
        model=model,
        loss=lambda model, x: model(x).square().mean(),
        optimizer=torch.optim.AdamW(model.parameters(), fused=flags.fused or None),
        inputs={"x": torch.ones(2, 1)},
        steps=10,
    )

"""A training step that is products of 2048 × 2048 matrices, to find what a core can reach."""

import argparse

import torch

from fsdp_mlir import TrainingStep

SIZE = 2048


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--precision", choices=("bf16",))
    dtype = torch.bfloat16 if parser.parse_args(argv).precision else torch.float32
    torch.manual_seed(0)
    model = torch.nn.Linear(SIZE, SIZE, bias=False, dtype=dtype)
    return TrainingStep(
        model=model,
        loss=lambda model, x: model(x).square().mean(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        inputs={"x": torch.randn(SIZE, SIZE, dtype=dtype)},
        steps=1,
    )

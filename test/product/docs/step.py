"""The running example of docs/ir: one layer, and two samples for each rank."""

import torch

from fsdp_mlir import TrainingStep


def training_step(argv: list[str]) -> TrainingStep:
    model = torch.nn.Linear(4, 3, bias=False)
    return TrainingStep(
        model=model,
        loss=lambda model, x: model(x).sum(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        inputs={"x": torch.ones(2, 4)},
        steps=3,
    )

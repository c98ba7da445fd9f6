"""What the commands of the pages train: two blocks, with data and an evaluation."""

import torch
from torch import nn

from fsdp_mlir import TrainingStep


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def training_step(argv: list[str]) -> TrainingStep:
    torch.manual_seed(0)
    model = Model()
    data = {"x": torch.randn(64, 16), "y": torch.randint(4, (64,))}
    return TrainingStep(
        model=model,
        loss=lambda model, x, y: nn.functional.cross_entropy(model(x), y),
        optimizer=torch.optim.AdamW(model.parameters()),
        inputs={name: tensor[:4] for name, tensor in data.items()},
        data=data,
        eval_data=data,
        steps=6,
    )

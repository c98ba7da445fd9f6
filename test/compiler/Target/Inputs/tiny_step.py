"""A step with all that an import has to handle, as small as it can be."""

import torch
from torch import nn

from fsdp_mlir import TrainingStep


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x):
        return nn.functional.dropout(torch.relu(self.norm(self.linear(x))), 0.25, self.training)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(6, 6, bias=False)
        self.tied = self.blocks[0].linear
        self.unreached = nn.Parameter(torch.zeros(3))
        self.frozen = nn.Parameter(torch.ones(6), requires_grad=False)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        first, second = self.head(x + self.frozen).split(3, dim=1)
        return first, second[:, torch.tensor([0, 2])]


def training_step(argv):
    torch.manual_seed(0)
    model = Model()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]

    def loss(model, x, scale):
        first, second = model(x)
        return (first.square().mean() + second.square().mean()) * scale

    return TrainingStep(
        model,
        loss,
        torch.optim.AdamW(
            [{"params": decayed}, {"params": others, "lr": 0.5, "weight_decay": 0.0}],
            fused="--fused" in argv,
        ),
        inputs={"x": torch.randn(4, 6), "scale": torch.tensor(2.0)},
        data={"x": torch.randn(16, 6)},
        eval_data={"x": torch.randn(8, 6)},
        lr_schedule=lambda step: 1.0 if step < 2 else 0.5,
        steps=3,
        seed=7,
    )

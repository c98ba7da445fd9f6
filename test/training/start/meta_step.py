"""Classifies numbers by a model that is built on meta: recipes of every kind, odd sizes."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

from fsdp_mlir import TrainingStep


class Classifier(nn.Module):
    def __init__(self, width: int, layers: int, table: bool) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.randn(7, 13) * 0.02)
        self.embedding = nn.Embedding(11, 13, padding_idx=2)
        self.norm = nn.BatchNorm1d(13)
        self.inner = nn.ModuleList(nn.Linear(13 if i == 0 else width, width) for i in range(layers))
        self.head = nn.Linear(width, 5)
        if table:
            self.register_buffer("table", torch.empty(13), persistent=False)
        self.has_table = table

    def init_weights(self) -> None:
        nn.init.trunc_normal_(self.head.weight, std=0.1)
        nn.init.zeros_(self.head.bias)
        for layer in self.inner:
            nn.init.xavier_normal_(layer.weight)
        if self.has_table:
            self.table.copy_(torch.arange(13).float().cos())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (self.embedding(x) + self.position).mean(1)
        y = self.norm(y * self.table if self.has_table else y)
        for layer in self.inner:
            y = F.gelu(layer(y))
        return self.head(y)


def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=19)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.0)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--real", action="store_true")
    args = parser.parse_args(argv)
    with torch.device("cpu" if args.real else "meta"):
        model = Classifier(args.width, args.layers, args.table)
    if not args.real:
        model.to_empty(device="cpu")
        for module in model.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
        with torch.no_grad():
            model.position.normal_(std=0.02)
    model.init_weights()
    data = {"x": torch.arange(24 * 7).reshape(24, 7) % 11, "y": torch.arange(24) % 5}
    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=args.lr),
        inputs={name: tensor[:2] for name, tensor in data.items()},
        data=data,
        steps=1,
        seed=3,
    )

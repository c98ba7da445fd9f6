"""Tests that parameters and buffers which are not row-major, as channels-last ones, train with the
bits of eager PyTorch, on every layout: they are held row by row, and read in the model's order."""

from __future__ import annotations

import pathlib
from typing import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fsdp_mlir import TrainingStep, fully_shard
from fsdp_mlir.step.strides import row_major_strides
from support import chain, reference

STEPS = 3


class Pictures(nn.Module):
    """Its buffers are of four dimensions too, and one of them changes."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, groups=8),
            nn.ConvTranspose2d(8, 6, 2, stride=2),
            nn.Conv2d(6, 5, 1),
        )
        self.head = nn.Linear(5, 3)
        self.register_buffer("blur", torch.rand(3, 1, 3, 3) / 9)
        self.register_buffer("seen", torch.zeros(4, 3, 8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.conv2d(x, self.blur, padding=1, groups=3)
        with torch.no_grad():
            self.seen.mul_(0.5).add_(x, alpha=0.5)
        return self.head(self.features(x - self.seen).mean((2, 3)))


class Pixels(nn.Module):
    """Maps of one pixel, whose strides are those of no order alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 64, 3, bias=False), nn.Conv2d(64, 64, 1, bias=False)
        self.norm, self.head = nn.BatchNorm2d(64), nn.Linear(64, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        return self.head((x + self.norm(self.last(x)).relu()).relu().flatten(1))


class Volumes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv3d(2, 4, 3), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.conv(x).relu().mean((2, 3, 4)))


class Transposed(nn.Module):
    """A matrix column by column, one whose dimensions have turned, a part of a larger one, and a
    column that is a row."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 10)
        self.first.weight = nn.Parameter(torch.randn(6, 10).mul_(0.3).t())
        self.turned = nn.Parameter(torch.randn(10, 4, 5).mul_(0.3).permute(1, 2, 0))
        self.part = nn.Parameter(torch.randn(5, 9)[:, 2:6])
        self.line = nn.Parameter(torch.randn(4, 1).t())
        self.fixed = nn.Parameter(torch.randn(3, 4).t(), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.einsum("bi,hoi->bho", self.first(x).tanh(), self.turned)
        return (y.mean(1) @ self.part + self.line) @ self.fixed


def pictures(given: bool) -> TrainingStep:
    torch.manual_seed(2)
    model, x = Pictures(), torch.randn(4, 3, 8, 8)
    model.to(memory_format=torch.channels_last)
    return _step(model, x.to(memory_format=torch.channels_last) if given else x)


def pixels() -> TrainingStep:
    torch.manual_seed(2)
    model = Pixels().to(memory_format=torch.channels_last)
    return _step(model, torch.randn(4, 3, 3, 3).to(memory_format=torch.channels_last))


def volumes() -> TrainingStep:
    torch.manual_seed(2)
    model = Volumes().to(memory_format=torch.channels_last_3d)
    return _step(model, torch.randn(4, 2, 5, 5, 5))


def transposed() -> TrainingStep:
    torch.manual_seed(2)
    return _step(Transposed(), torch.randn(4, 6))


def transposed_units() -> TrainingStep:
    step = transposed()
    fully_shard(step.model.first)
    fully_shard(step.model)
    return step


def _step(model: nn.Module, x: torch.Tensor) -> TrainingStep:
    loss = lambda model, x, y: F.cross_entropy(model(x), y)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    return TrainingStep(model, loss, optimizer, {"x": x, "y": torch.tensor([0, 2, 1, 2])})


MODELS: dict[str, Callable[[], TrainingStep]] = {
    "channels-last": lambda: pictures(given=True),
    "channels-last weights alone": lambda: pictures(given=False),
    "channels-last of one pixel": pixels,
    "channels-last-3d": volumes,
    "transposed": transposed,
    "transposed units": transposed_units,
}


@pytest.mark.quick
@pytest.mark.parametrize("ranks, options", [(1, ""), (2, ""), (2, "shard-layout=flat remat=full")])
@pytest.mark.parametrize("name", MODELS)
def test_ranks_train_as_pytorch(
    name: str, ranks: int, options: str, tmp_path: pathlib.Path
) -> None:
    make = MODELS[name]
    model = make().model
    states = (*model.parameters(), *model.buffers())
    assert any(state.stride() != row_major_strides(state.shape) for state in states)
    trained = reference.averaged(make(), ranks, STEPS)
    compiled = chain.compile_step(lambda argv: make(), tmp_path, pipeline=f"mesh={ranks} {options}")
    run = chain.run_plan(compiled, ranks, steps=STEPS)
    reference.assert_same_bits(run.losses, run.weights, trained)


class Columns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(6, 10).t())
        self.last = nn.Parameter(torch.randn(5, 10).t())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.first.t()).tanh() @ self.last


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("optimizer", [torch.optim.Muon, torch.optim.Adafactor])
def test_optimizers_that_look_at_whole_matrices(
    optimizer: type[torch.optim.Optimizer], ranks: int, tmp_path: pathlib.Path
) -> None:
    """Their sums, and Muon's products in bfloat16, are of matrices that lie otherwise."""

    def make(argv: object = ()) -> TrainingStep:
        torch.manual_seed(2)
        model = Columns()
        loss = lambda model, x: model(x).square().mean()
        own = optimizer(model.parameters(), lr=0.01)
        return TrainingStep(model, loss, own, {"x": torch.randn(4, 6)})

    trained = reference.averaged(make(), ranks, STEPS)
    compiled = chain.compile_step(make, tmp_path, pipeline=f"mesh={ranks}")
    run = chain.run_plan(compiled, ranks, steps=STEPS)
    for name, value in trained.state.items():
        torch.testing.assert_close(run.weights[name], value, rtol=1e-3, atol=1e-4)

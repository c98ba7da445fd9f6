"""Tests that a parameter which is trained, and which the step keeps between bounds in place, has the
bits of eager PyTorch, or is refused."""

from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fsdp_mlir import ExportError, TrainingStep
from fsdp_mlir.export import export_step
from support import chain, reference

STEPS = 3


def by_data(scale: nn.Parameter, read: Tensor) -> None:
    scale.data.clamp_(-0.3, 0.3)


def by_operators(scale: nn.Parameter, read: Tensor) -> None:
    with torch.no_grad():
        scale.clamp_(min=0.01)


def twice(scale: nn.Parameter, read: Tensor) -> None:
    """As where a module runs twice."""
    by_data(scale, read)
    by_data(scale, read)


def after_it_is_read(scale: nn.Parameter, read: Tensor) -> None:
    read.add_(scale.detach().sum())
    by_data(scale, read)


def by_a_product(scale: nn.Parameter, read: Tensor) -> None:
    scale.data.mul_(0.9)


class Scaled(nn.Module):
    def __init__(self, change: Callable[[nn.Parameter, Tensor], None]) -> None:
        super().__init__()
        self.layer, self.change = nn.Linear(8, 6), change
        self.scale = nn.Parameter(torch.linspace(-1, 1, 6))

    def forward(self, x: Tensor) -> Tensor:
        read = torch.zeros(())
        if self.training:
            self.change(self.scale, read)
        return self.layer(x) * self.scale + read


def training_step(change: Any, optimizer: Any = torch.optim.AdamW) -> TrainingStep:
    torch.manual_seed(1)
    model, x = Scaled(change), torch.randn(24, 8)
    return TrainingStep(
        model,
        lambda model, x: F.mse_loss(model(x), x[:, :6]),
        optimizer(model.parameters(), lr=0.5, weight_decay=0.1),
        {"x": x[:4]},
        data={"x": x},
    )


@pytest.mark.quick
@pytest.mark.parametrize(
    "change, optimizer, ranks",
    [
        (by_data, torch.optim.AdamW, 2),
        (by_operators, torch.optim.SGD, 1),
        (twice, torch.optim.SGD, 1),
    ],
)
def test_it_is_eagers(change: Any, optimizer: Any, ranks: int, tmp_path: pathlib.Path) -> None:
    make = lambda argv=(): training_step(change, optimizer)
    trained = reference.averaged(make(), ranks, STEPS)
    plan = chain.compile_step(make, tmp_path, pipeline=f"mesh={ranks}")
    run = chain.run_plan(plan, ranks, steps=STEPS)
    reference.assert_same_bits(run.losses, run.weights, trained)


@pytest.mark.parametrize("change", [after_it_is_read, by_a_product])
def test_another_change_is_refused(change: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        ExportError, match=r"parameters.py:\d+: the step changes the parameter scale"
    ):
        export_step(training_step(change), tmp_path / "step.pt")

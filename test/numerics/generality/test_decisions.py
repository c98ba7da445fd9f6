"""Tests that ranks which decide by their own batches, or by counts in buffers, train as eager PyTorch
does."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from torch import nn

import fsdp_mlir
from support import chain, reference

ROWS, WIDTH, STEPS = 4, 6, 4


def step_of(argv: list[str], accumulate: int = 1) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.Linear(8, 8), nn.Linear(8, 1))

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        h = model[0](x)
        if (x[:, 0] > 0.8).any():
            h = model[1](h).tanh()
        rows = h[x[:, 1] > 0.5]
        if len(rows) == 0:
            return model[2](h).mean()
        return model[2](h).square().mean() + rows.mean()

    x = torch.randn(2 * STEPS * accumulate * ROWS, WIDTH)
    return fsdp_mlir.TrainingStep(
        model=model,
        loss=loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
        inputs={"x": x[:ROWS]},
        data={"x": x},
        steps=STEPS,
        accumulate=accumulate,
    )


def in_micro_batches(argv: list[str]) -> Any:
    return step_of(argv, accumulate=2)


class _Counts(nn.Module):
    """A target that each second step copies, and a centre of the first batch, by what buffers hold."""

    def __init__(self) -> None:
        super().__init__()
        self.online, self.target = nn.Linear(WIDTH, 3), nn.Linear(WIDTH, 3).requires_grad_(False)
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("begun", torch.tensor(False))
        self.register_buffer("center", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        if self.count % 2 == 0:
            self.target.load_state_dict(self.online.state_dict())
        y = self.online(x)
        if not self.begun:
            self.center.copy_(y.detach().mean(0))
            self.begun.fill_(True)
        step = self.count.item()
        return (y - self.center - self.target(x) if step > 2 else y).square().mean()


def of_counts(argv: list[str]) -> Any:
    torch.manual_seed(0)
    model, x = _Counts(), torch.randn(2 * STEPS * ROWS, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loss = lambda model, x: model(x)  # noqa: E731
    return fsdp_mlir.TrainingStep(
        model, loss, optimizer, {"x": x[:ROWS]}, data={"x": x}, steps=STEPS
    )


@pytest.mark.parametrize(
    "step", [pytest.param(step_of, marks=pytest.mark.quick), in_micro_batches, of_counts]
)
def test_ranks_that_decide_otherwise(tmp_path: pathlib.Path, step: Any) -> None:
    result = chain.run_plan(chain.compile_step(step, tmp_path), 2, steps=STEPS)
    wanted = reference.averaged(step([]), 2, STEPS)
    torch.testing.assert_close(result.losses, wanted.mean_losses, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(result.weights, dict(wanted.state), rtol=1e-6, atol=1e-7)

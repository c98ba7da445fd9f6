"""Tests of numbers that a step keeps in Python for the next one: what it computes with them has the
bits of eager PyTorch, step by step, and each rank has its own."""

from __future__ import annotations

import math
import pathlib
from typing import Any, Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fsdp_mlir import TrainingStep
from fsdp_mlir.errors import ExportNote
from fsdp_mlir.export import export_step
from support import chain, reference

STEPS = 4


class Keeps(nn.Module):
    """Anneals a factor by a count of its calls, and scales by a running mean."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.mean = nn.Linear(8, 3), 0.0

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        self.calls += 1
        self.mean = 0.9 * self.mean + 0.1 * y.mean().item()
        return y * (min(1.0, self.calls / 3) + self.mean)


class KeepsInBuffers(nn.Module):
    """The same by tensors, of which each emulated rank has its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.register_buffer("calls", torch.tensor(0), persistent=False)
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        self.calls += 1
        self.mean.copy_(0.9 * self.mean + 0.1 * y.mean().detach().double())
        factor = (self.calls.double() / 3).clamp(max=1.0) + self.mean
        return y * factor.float()


COUNT = 0


def by_a_global_variable(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    global COUNT
    COUNT += 1
    return F.cross_entropy(model(x), y) * (COUNT % 3 + 1 + math.cos(math.pi * COUNT / 8))


class Loss:
    """Weights a loss by the mean of those before."""

    def __init__(self, reads: Callable[[Tensor], Any]) -> None:
        self.mean, self.reads = 1.0, reads

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x), y)
        weighted = loss / self.mean
        self.mean = 0.9 * self.mean + 0.1 * self.reads(loss)
        return weighted


def training_step(model: nn.Module, loss: Any, **options: Any) -> TrainingStep:
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    x, y = torch.randn(32, 8), torch.randint(3, (32,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    inputs, data = {"x": x[:4], "y": y[:4]}, {"x": x, "y": y}
    return TrainingStep(model, loss, optimizer, inputs, data=data, epochs=1, **options)


def classified(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


CASES: dict[str, Callable[[], TrainingStep]] = {
    "attributes": lambda: training_step(Keeps(), classified),
    "accumulation": lambda: training_step(Keeps(), classified, accumulate=2),
    "global": lambda: training_step(nn.Linear(8, 3), by_a_global_variable),
    "loss": lambda: training_step(nn.Linear(8, 3), Loss(lambda loss: loss.item())),
    "float": lambda: training_step(nn.Linear(8, 3), Loss(lambda loss: float(loss))),
}


def check(make: Callable[..., TrainingStep], expected: Any, ranks: int, path: pathlib.Path) -> None:
    plan = chain.compile_step(lambda argv=(): make(), path, pipeline=f"mesh={ranks}")
    run = chain.run_plan(plan, ranks, steps=STEPS)
    assert run.losses == expected.mean_losses
    assert sorted(run.weights) == sorted(expected.state)
    for name, value in expected.state.items():
        assert torch.equal(run.weights[name], value), name


@pytest.mark.parametrize("name", CASES)
def test_steps_are_eagers(name: str, tmp_path: pathlib.Path) -> None:
    global COUNT
    COUNT = 0
    expected = reference.eager(CASES[name](), STEPS // CASES[name]().accumulate)
    COUNT = 0
    plan = chain.compile_step(lambda argv=(): CASES[name](), tmp_path, pipeline="mesh=1")
    run = chain.run_plan(plan, 1, steps=len(expected.losses))
    assert run.losses == expected.mean_losses
    for key, value in expected.state.items():
        assert torch.equal(run.weights[key], value), key


def test_ranks_have_their_own(tmp_path: pathlib.Path) -> None:
    in_buffers = training_step(KeepsInBuffers(), classified)
    check(CASES["attributes"], reference.averaged(in_buffers, 2, STEPS), 2, tmp_path)


def test_a_note_names_the_numbers_that_are_kept(tmp_path: pathlib.Path) -> None:
    step = CASES["attributes"]()
    with pytest.warns(ExportNote, match=r"the step changes model.mean, model.calls, with which it"):
        export_step(step, tmp_path / "step.pt")
    assert step.model.mean == 0.0 and "calls" not in vars(step.model)

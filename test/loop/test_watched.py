"""Tests that what a script does to its model between steps, and no run follows, is an error."""

from __future__ import annotations

import gc
import pathlib

import pytest
import torch
from torch import nn

import fsdp_mlir
from fsdp_mlir import RunError, TrainingStep

X = torch.ones(4, 6)


def training_step(model: nn.Module) -> TrainingStep:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
    return TrainingStep(model, lambda model, x: model(x).square().mean(), optimizer, {"x": X})


@pytest.mark.provokes("FSDP-E0807")
def test_a_parameter_that_is_frozen_between_steps(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 2))
    with fsdp_mlir.compile(training_step(model), out=tmp_path / "all") as run:
        run({"x": X})
        model[0].requires_grad_(False)
        with pytest.raises(RunError, match="0.weight was trainable when .* and is frozen now"):
            run({"x": X})
        states = {name: value.clone() for name, value in run.state_dict().items()}
    with fsdp_mlir.compile(training_step(model), out=tmp_path / "rest") as run:
        run.load_state_dict(states)
        run({"x": X})
        changed = {
            name for name, value in run.state_dict().items() if (value != states[name]).any()
        }
    assert changed == {"1.weight", "1.bias"}


def test_a_model_that_is_gone_is_watched_no_more(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(6, 5)
    with fsdp_mlir.compile(training_step(model), out=tmp_path) as run:
        run({"x": X})
        del model
        gc.collect()
        run({"x": X})

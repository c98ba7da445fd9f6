"""Tests that what a script does to its model between steps, and no run follows, is an error."""

from __future__ import annotations

import copy
import gc
import io
import pathlib
import pickle
import warnings
from typing import Callable

import pytest
import torch
from torch import nn

import fsdp_mlir
from fsdp_mlir import RunError, TrainingStep
from fsdp_mlir.errors import ExportNote

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


def test_values_that_a_script_gives_its_model_are_warned_of(tmp_path: pathlib.Path) -> None:
    """Tests that a checkpoint which is loaded into the model, and not into the run, is no silent
    start anew; and that what the run gave the model is none."""
    torch.manual_seed(0)
    model, other = nn.Linear(6, 5), nn.Linear(6, 5)
    with fsdp_mlir.compile(training_step(model), out=tmp_path) as run:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run({"x": X})
            run.copy_to(model)
            run({"x": X})
            model.load_state_dict(run.state_dict())
            run({"x": X})
            model.load_state_dict(other.state_dict())
            run.load_state_dict(model.state_dict())
            run({"x": X})
        model.load_state_dict(other.state_dict())
        with pytest.warns(RuntimeWarning, match=r"weight of the model was written to .*run\.load_"):
            run({"x": X})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.reset_parameters()
            run({"x": X})


def test_a_parameters_data_that_a_script_sets_is_warned_of(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(6, 5)
    with fsdp_mlir.compile(training_step(model), out=tmp_path) as run:
        run({"x": X})
        model.weight.data = torch.ones(5, 6)
        with pytest.warns(RuntimeWarning, match="weight of the model was written to"):
            run({"x": X})


def _through_numpy(model: nn.Module) -> None:
    model.weight.detach().numpy()[:] = 0


EARLY: dict[str, Callable[[nn.Module], object]] = {
    "data": lambda model: model.weight.data.copy_(torch.zeros(5, 6)),
    "set": lambda model: setattr(model.weight, "data", torch.zeros(5, 6)),
    "numpy": _through_numpy,
    "dtype": lambda model: model.to(torch.bfloat16),
    "parameter": lambda model: setattr(model, "weight", nn.Parameter(torch.zeros(5, 6))),
    "assign": lambda model: model.load_state_dict(nn.Linear(6, 5).state_dict(), assign=True),
}


def test_values_from_before_the_first_step_are_warned_of(tmp_path: pathlib.Path) -> None:
    """Tests that no way of giving the model its start behind `compile` is silent; that reading it
    is no write; and that what the run has as well is no other value."""
    torch.manual_seed(0)
    for write in EARLY.values():
        model = nn.Linear(6, 5)
        with fsdp_mlir.compile(training_step(model), out=tmp_path) as run:
            model(X)
            write(model)
            with pytest.warns(RuntimeWarning, match="^weight of the model was written to") as said:
                run({"x": X})
            assert [warning.filename for warning in said] == [__file__]
    model = nn.Linear(6, 5)
    with fsdp_mlir.compile(training_step(model), out=tmp_path) as run:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.load_state_dict(run.state_dict(), assign=True)
            model.load_state_dict(nn.Linear(6, 5).state_dict(), assign=True)
            run.copy_to(model)
            run({"x": X})
        with pytest.warns(RuntimeWarning, match="weight of the model is read"):
            model(X)  # of the tensors that were assigned


class Switched(nn.Linear):
    """Decides by a buffer, and counts its steps in another."""

    def __init__(self) -> None:
        super().__init__(6, 5)
        self.register_buffer("flag", torch.ones(()))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return super().forward(x) + (1 if self.flag else 0)


def test_a_buffer_that_a_script_switches_is_warned_of(tmp_path: pathlib.Path) -> None:
    model = Switched()
    with pytest.warns(ExportNote, match="what flag holds, which no step changes"):
        run = fsdp_mlir.compile(training_step(model), out=tmp_path)
    with run, warnings.catch_warnings():
        warnings.simplefilter("error")
        run({"x": X})
        run({"x": X})
        model.flag.zero_()
        with pytest.raises(
            RuntimeWarning, match="^flag of the model .*by a buffer stays as it was"
        ):
            run({"x": X})


def _ema(model: nn.Module) -> None:
    torch.optim.swa_utils.AveragedModel(model).update_parameters(model)


def _clamp(model: nn.Module) -> None:
    for p in model.parameters():
        p.data.clamp_(-0.01, 0.01)


def _copy(model: nn.Module) -> None:
    assert {type(state) for state in copy.deepcopy(model).parameters()} == {nn.Parameter}


READS: dict[str, Callable[[nn.Module], object]] = {
    "evaluation": lambda model: model.eval()(X),
    "compiled": lambda model: torch.compile(model, backend="eager")(X),
    "average": _ema,
    "clamp": _clamp,
    "saving": lambda model: torch.save(model.state_dict(), io.BytesIO()),
    "pickling": pickle.dumps,
    "copy": _copy,
    "number": lambda model: model.bias[0].item(),
    "buffer": lambda model: model.mean.sum(),
}


class Averaging(nn.Linear):
    """Has a buffer that each step changes."""

    def __init__(self) -> None:
        super().__init__(6, 5)
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        if self.training:
            self.mean.lerp_(y.detach().mean(0), 0.1)
        return y


def test_old_values_that_a_script_reads_are_warned_of(tmp_path: pathlib.Path) -> None:
    """Tests that what a loop of PyTorch does with the model after a step, and what would go by the
    values from before, is told once, by the script's line; and that what needs no values is not."""
    model = Averaging()
    step = training_step(model)
    for read in READS.values():
        model.train()
        with fsdp_mlir.compile(step, out=tmp_path) as run, warnings.catch_warnings():
            warnings.simplefilter("error")
            if read is not _clamp:  # which writes, too
                read(model.eval())
            model.train()
            run({"x": X})
            run.copy_to(model)
            read(model.eval())
            run.load_state_dict(model.train().state_dict())
            run({"x": X})
            model.requires_grad_(True).to(torch.float32).zero_grad()
            assert sum(p.numel() for p in model.parameters()) == 35
            step.optimizer.zero_grad()
            step.optimizer.step()
            with pytest.warns(RuntimeWarning, match="of the model is read, .* old values") as said:
                read(model)
            assert [warning.filename for warning in said] == [__file__]
            read(model)


GRADIENTS: dict[str, Callable[[nn.Module], object]] = {
    "norm": lambda model: nn.utils.clip_grad_norm_(model.parameters(), 1.0),
    "noise": lambda model: [p.grad.add_(1) for p in model.parameters() if p.grad is not None],
}


@pytest.mark.parametrize("what", GRADIENTS)
def test_gradients_that_a_script_reads_are_warned_of(what: str, tmp_path: pathlib.Path) -> None:
    model = nn.Linear(6, 5)
    with fsdp_mlir.compile(training_step(model), out=tmp_path) as run:
        run({"x": X})
        with pytest.warns(RuntimeWarning, match="the gradient of weight .*clip_grad_norm=") as said:
            GRADIENTS[what](model)
        assert [warning.filename for warning in said] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run({"x": X})
            GRADIENTS[what](model)


CALLS: dict[str, Callable[[TrainingStep], object]] = {
    "clip_grad_value_ reads .*; give TrainingStep clip_grad_value=": lambda step: (
        nn.utils.clip_grad_value_(step.model.parameters(), 1.0)
    ),
    "_unscale_grads_ reads .*; give TrainingStep scaler=": lambda step: (
        SCALER.step(step.optimizer)
    ),
}
SCALER = torch.amp.GradScaler("cpu", 1.0)
SCALER.scale(torch.ones(()))


def test_calls_that_need_gradients_are_refused(tmp_path: pathlib.Path) -> None:
    """Tests that they end in an error that says why, in each pass of the loop, and by the line."""
    model = nn.Linear(6, 5)
    step = training_step(model)
    with fsdp_mlir.compile(step, out=tmp_path) as run:
        run({"x": X})
        for said, call in [*CALLS.items(), *CALLS.items()]:
            with pytest.raises(RunError, match=rf"^test_watched.py:\d+: {said}"):
                call(step)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                model(X)
            run({"x": X})


def test_an_optimizers_states_that_a_script_saves_are_warned_of(tmp_path: pathlib.Path) -> None:
    """Tests that a checkpoint without the run's states is no silent one, also when the run is over;
    plain SGD has none to save."""
    step = training_step(model := nn.Linear(6, 5))
    with fsdp_mlir.compile(step, out=tmp_path) as run, warnings.catch_warnings():
        warnings.simplefilter("error")
        run({"x": X})
        step.optimizer.state_dict()
    momentum = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    step = TrainingStep(model, step.loss, momentum, {"x": X})
    with fsdp_mlir.compile(step, out=tmp_path) as run:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step.optimizer.state_dict()
            copy.deepcopy(step.optimizer)
            run({"x": X})
    with pytest.warns(RuntimeWarning, match=r"^state_dict\(\) of the optimizer .*run.state_dict"):
        step.optimizer.state_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step.optimizer.state_dict()


def test_inputs_that_a_script_refills_are_warned_of(tmp_path: pathlib.Path) -> None:
    """Tests that a step without a batch, which takes those of the export, is no silent
    repetition."""
    model, x = nn.Linear(6, 5), torch.ones(4, 6)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loss = lambda model, x: model(x).square().mean()
    with fsdp_mlir.compile(TrainingStep(model, loss, optimizer, {"x": x}), out=tmp_path) as run:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run()
            x.fill_(2)
            run({"x": x})
        with pytest.warns(
            RuntimeWarning, match=r"^x of the step's inputs .*run\(\{'x': \.\.\.\}\)"
        ):
            run()


class Settings:
    weight = 1.0


weight, scale = 1.0, torch.ones(())
weights = {"of": [1.0, {"loss": 1.0}]}
criterion = nn.MSELoss()
penalty = nn.BCELoss(weight=torch.ones(()))


class Weighed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.weight = nn.Linear(6, 5), nn.BatchNorm1d(5), 1.0
        self.unread, self.activation = 1.0, torch.tanh

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * self.activation(self.norm(self.layer(x)))


def _set_weight(model: nn.Module, value: float) -> None:
    global weight
    weight = value


CHANGES: dict[str, Callable[[Weighed, float], object]] = {
    "model.norm.training was True .* and is False": lambda model, _: model.norm.eval(),
    "model.norm.momentum was 0.1": lambda model, new: setattr(model.norm, "momentum", new),
    "model.weight was 1.0 .* and is 0.5": lambda model, new: setattr(model, "weight", new),
    "^weight was 1.0 .* and is 0.5": _set_weight,
    "Settings.weight was 1.0": lambda model, new: setattr(Settings, "weight", new),
    "criterion.reduction was 'mean'": lambda model, _: setattr(criterion, "reduction", "sum"),
    "^scale, a tensor, has other values": lambda model, new: scale.fill_(new),
    "^inner was 1.0": lambda model, new: model.set_inner(new),
    r"^weights\['of'\]\[1\]\['loss'\] was 1.0": lambda model, new: weights["of"][1].update(
        loss=new
    ),
    "model.activation is another function": lambda model, _: setattr(
        model, "activation", torch.sigmoid
    ),
    "model.forward is another function": lambda model, _: setattr(
        model, "forward", model.layer.forward
    ),
    "^BCELoss.weight, a tensor, has other values": lambda model, new: penalty.weight.fill_(new),
}


@pytest.mark.parametrize("said", CHANGES)
def test_what_a_script_changes_that_the_step_reads_is_warned_of(
    said: str, tmp_path: pathlib.Path
) -> None:
    """Tests that the weight of a loss which a script anneals, or a layer that it freezes, is no
    silent constant; and that what the step does not read may change."""
    model, inner = Weighed(), 1.0

    def set_inner(new: float) -> None:
        nonlocal inner
        inner = new

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y, w = model(x), weights["of"][1]["loss"]
        bound = penalty(y.sigmoid(), torch.ones_like(y))
        return inner * weight * w * Settings.weight * scale * criterion(y, x[:, :5]) + bound

    model.set_inner = set_inner
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = TrainingStep(model, loss, optimizer, {"x": torch.randn(4, 6)})
    try:
        with fsdp_mlir.compile(step, out=tmp_path) as run, warnings.catch_warnings():
            warnings.simplefilter("error")
            model.unread = 2.0
            model.eval().train()
            model.layer.eval()
            run({"x": X})
            CHANGES[said](model, 0.5)
            with pytest.warns(
                RuntimeWarning, match=f"{said} .*compiled for: make a number"
            ) as found:
                run({"x": X})
            assert [warning.filename for warning in found] == [__file__]
            run({"x": X})
    finally:
        _set_weight(model, 1.0)
        Settings.weight, criterion.reduction, weights["of"][1]["loss"] = 1.0, "mean", 1.0
        scale.fill_(1.0), penalty.weight.fill_(1.0)

"""Tests that optimizers are recorded as PyTorch runs them, by class, flags and groups."""

import math
import pathlib
from typing import Any

import pytest
import torch
from exporting import classify, export
from torch import nn

from fsdp_mlir import ExportError, TrainingStep
from fsdp_mlir.step.names import StateNames
from fsdp_mlir.rules.optimizer import read_optimizer
from fsdp_mlir.rules.schedule import read_schedule


def record(tmp_path: pathlib.Path, model: nn.Module, optimizer: torch.optim.Optimizer, **options):
    return export(classify(model, optimizer=optimizer, **options), tmp_path)


def test_sgd(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    sgd = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=1e-2)
    optimizer = record(tmp_path, model, sgd).metadata["optimizer"]
    assert optimizer["groups"] == [
        {
            "optimizer": "sgd",
            "implementation": "for-loop",
            "parameters": ["weight", "bias"],
            "hyperparameters": {
                "lr": 0.1,
                "momentum": 0.9,
                "dampening": 0.0,
                "weight_decay": 0.01,
                "nesterov": True,
                "maximize": False,
            },
        }
    ]


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_adam_and_adamw(tmp_path: pathlib.Path, kind: type) -> None:
    model = nn.Linear(8, 3)
    optimizer = record(tmp_path, model, kind(model.parameters(), 2e-3)).metadata["optimizer"]
    assert optimizer["groups"][0]["optimizer"] == kind.__name__.lower()
    assert optimizer["groups"][0]["hyperparameters"] == {
        "lr": 2e-3,
        "betas": [0.9, 0.999],
        "eps": 1e-8,
        "weight_decay": 0.01 if kind is torch.optim.AdamW else 0.0,
        "amsgrad": False,
        "maximize": False,
        "decoupled_weight_decay": kind is torch.optim.AdamW,
    }


@pytest.mark.parametrize(
    "flags, implementation",
    [({}, "for-loop"), ({"fused": True}, "fused"), ({"foreach": True}, "foreach")],
)
def test_the_implementation_follows_the_flags(
    tmp_path: pathlib.Path, flags: dict[str, bool], implementation: str
) -> None:
    model = nn.Linear(8, 3)
    adam = torch.optim.Adam(model.parameters(), **flags)
    exported = record(tmp_path, model, adam)
    assert exported.metadata["optimizer"]["groups"][0]["implementation"] == implementation


def test_groups_keep_their_order_and_values(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    groups = [{"params": [model.bias], "weight_decay": 0.0}, {"params": [model.weight]}]
    adamw = torch.optim.AdamW(groups, lr=torch.tensor(0.5), weight_decay=0.25)
    first, second = record(tmp_path, model, adamw).metadata["optimizer"]["groups"]
    assert (first["parameters"], first["hyperparameters"]["weight_decay"]) == (["bias"], 0.0)
    assert (second["parameters"], second["hyperparameters"]["weight_decay"]) == (["weight"], 0.25)
    assert first["hyperparameters"]["lr"] == 0.5


def test_parameters_without_an_update_are_a_warning(tmp_path: pathlib.Path) -> None:
    """Each of them is named once, though nothing reaches what the optimizer does not hold either."""
    model = nn.Linear(8, 3)
    model.unread = nn.Linear(2, 2)
    exported = record(tmp_path, model, torch.optim.SGD([model.weight, model.unread.bias], 0.1))
    assert exported.warnings == [
        "bias, unread.weight are trainable but not in the optimizer: they get no update",
        "unread.bias is trainable but not reached by the loss: it gets no update",
    ]


def test_an_optimizer_of_another_model_is_refused(tmp_path: pathlib.Path) -> None:
    optimizer = torch.optim.SGD(nn.Linear(8, 3).parameters(), 0.1)
    with pytest.raises(
        ExportError, match="not a parameter of the model; .* make its module a part"
    ):
        record(tmp_path, nn.Linear(8, 3), optimizer)


def test_an_optimizer_that_has_stepped_is_refused(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(8)).sum().backward()
    optimizer.step()
    with pytest.raises(ExportError, match="has state from earlier steps"):
        record(tmp_path, model, optimizer)


@pytest.mark.parametrize("flag", ["capturable", "differentiable"])
def test_flags_that_have_no_meaning_in_a_plan_are_refused(
    tmp_path: pathlib.Path, flag: str
) -> None:
    model = nn.Linear(8, 3)
    adam = torch.optim.Adam(model.parameters(), **{flag: True})
    with pytest.raises(ExportError, match=f"parameter group 0 .* has {flag}=True"):
        record(tmp_path, model, adam)


def test_a_number_that_is_not_finite_is_refused(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=float("nan"))
    with pytest.raises(ExportError, match="lr of parameter group 0 is nan; give a finite number"):
        export(classify(model, optimizer=optimizer), tmp_path)


def test_an_infinite_bound_that_holds_nothing_is_none(tmp_path: pathlib.Path) -> None:
    """As Prodigy's rate of growth: an archive has no such number, and needs none."""

    class Bounded(torch.optim.SGD):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, lr=0.1)
            self.param_groups[0]["most"] = math.inf

        def step(self, closure: Any = None) -> None:
            for p in self.param_groups[0]["params"]:
                p.data.add_(p.grad, alpha=-min(0.1, self.param_groups[0]["most"]))

    model = nn.Linear(8, 3)
    (group,) = record(tmp_path, model, Bounded(model.parameters())).metadata["optimizer"]["groups"]
    assert "most" not in group["hyperparameters"]


def test_adam_with_decoupled_weight_decay_is_adamw(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    adam = torch.optim.Adam(model.parameters(), weight_decay=0.1, decoupled_weight_decay=True)
    assert record(tmp_path, model, adam).metadata["optimizer"]["groups"][0]["optimizer"] == "adamw"


def test_weight_decay_is_of_one_kind(tmp_path: pathlib.Path) -> None:
    """As PyTorch has it, a group may say otherwise; one rule cannot."""
    model = nn.Linear(8, 3)
    groups = [{"params": [model.weight], "decoupled_weight_decay": True}, {"params": [model.bias]}]
    with pytest.raises(ExportError, match="differ in decoupled_weight_decay"):
        record(tmp_path, model, torch.optim.Adam(groups, weight_decay=0.1))


def test_several_optimizers(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(3, 2)
    muon, adamw = torch.optim.Muon([model.weight]), torch.optim.AdamW([model.bias], lr=0.1)

    def step(**more: Any) -> TrainingStep:
        given = {"optimizer": [muon, adamw], "steps": 3, **more}
        inputs = {"x": torch.randn(4, 3)}
        return TrainingStep(model, lambda model, x: model(x).mean(), inputs=inputs, **given)

    halves = torch.optim.lr_scheduler.StepLR(adamw, 1, gamma=0.5)
    table = read_schedule(step(lr_schedule=[halves]))
    assert table is not None
    assert table.columns == [(0, "lr"), (1, "lr")]
    assert table.rows == [[1e-3, 0.1], [1e-3, 0.05], [1e-3, 0.025]]
    made = step()
    description, _ = read_optimizer(made, StateNames(made), table).describe({})
    assert [group["optimizer"] for group in description["groups"]] == ["muon", "adamw"]
    assert [rule["name"] for rule in description["rules"]] == ["muon.0.2x3", "adamw.1"]

    with pytest.raises(ExportError, match="is in Muon and in SGD; give each to one optimizer"):
        step(optimizer=[muon, torch.optim.SGD(model.parameters())])
    with pytest.raises(ExportError, match="optimizer has a member of class int"):
        step(optimizer=[muon, 3])
    with pytest.raises(ExportError, match="lr_schedule belongs to another optimizer"):
        read_schedule(step(optimizer=muon, lr_schedule=halves))
    scaled = step(scaler=torch.amp.GradScaler("cpu"))
    with pytest.raises(ExportError, match="skips the step of each optimizer by itself"):
        read_optimizer(scaled, StateNames(scaled), None)

"""Tests that optimizers and learning-rate schedules are recorded as PyTorch runs them."""

import pathlib

import pytest
import torch
from exporting import classify, export
from torch import nn
from torch.optim import lr_scheduler

from fsdp_mlir import ExportError


def record(tmp_path: pathlib.Path, model: nn.Module, optimizer: torch.optim.Optimizer, **options):
    return export(classify(model, optimizer=optimizer, **options), tmp_path)


def test_sgd(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    sgd = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=1e-2)
    optimizer = record(tmp_path, model, sgd).metadata["optimizer"]
    assert (optimizer["rule"], optimizer["implementation"]) == ("sgd", "for-loop")
    assert optimizer["groups"] == [
        {
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
    assert optimizer["rule"] == kind.__name__.lower()
    assert optimizer["groups"][0]["hyperparameters"] == {
        "lr": 2e-3,
        "betas": [0.9, 0.999],
        "eps": 1e-8,
        "weight_decay": 0.01 if kind is torch.optim.AdamW else 0.0,
        "amsgrad": False,
        "maximize": False,
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
    assert exported.metadata["optimizer"]["implementation"] == implementation


def test_groups_keep_their_order_and_values(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    groups = [{"params": [model.bias], "weight_decay": 0.0}, {"params": [model.weight]}]
    adamw = torch.optim.AdamW(groups, lr=torch.tensor(0.5), weight_decay=0.25)
    first, second = record(tmp_path, model, adamw).metadata["optimizer"]["groups"]
    assert (first["parameters"], first["hyperparameters"]["weight_decay"]) == (["bias"], 0.0)
    assert (second["parameters"], second["hyperparameters"]["weight_decay"]) == (["weight"], 0.25)
    assert first["hyperparameters"]["lr"] == 0.5


def test_another_optimizer_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    with pytest.raises(ExportError, match="the optimizer is RMSprop; use torch.optim.SGD, Adam"):
        record(tmp_path, model, torch.optim.RMSprop(model.parameters()))


def test_a_parameter_outside_the_optimizer_is_a_warning(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    exported = record(tmp_path, model, torch.optim.SGD([model.weight], 0.1))
    assert "bias is trainable but not in the optimizer: it gets no update" in exported.warnings


def test_an_optimizer_of_another_model_is_refused(tmp_path: pathlib.Path) -> None:
    optimizer = torch.optim.SGD(nn.Linear(8, 3).parameters(), 0.1)
    with pytest.raises(ExportError, match="not a parameter of the model"):
        record(tmp_path, nn.Linear(8, 3), optimizer)


def test_an_optimizer_that_has_stepped_is_refused(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(8)).sum().backward()
    optimizer.step()
    with pytest.raises(ExportError, match="has state from earlier steps"):
        record(tmp_path, model, optimizer)


def test_a_scheduler_becomes_a_table_and_is_put_back(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(
        [{"params": [model.weight]}, {"params": [model.bias], "lr": 1.0}], lr=0.5
    )
    scheduler = lr_scheduler.SequentialLR(
        optimizer,
        [
            lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 3),
            lr_scheduler.CosineAnnealingLR(optimizer, 4),
        ],
        milestones=[3],
    )
    before = [dict(group) for group in optimizer.param_groups]
    exported = record(tmp_path, model, optimizer, lr_schedule=scheduler, steps=6)
    assert [dict(group) for group in optimizer.param_groups] == before
    expected = []
    for _ in range(6):
        expected.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    assert exported.metadata["learning_rates"] == expected


def test_a_function_scales_each_groups_rate(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    exported = record(tmp_path, model, optimizer, lr_schedule=lambda step: 1 / (step + 1), steps=3)
    assert exported.metadata["learning_rates"] == [[0.5], [0.25], [0.5 * (1 / 3)]]


def test_epochs_give_the_table_one_ranks_steps(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    data = {"x": torch.randn(11, 8), "y": torch.zeros(11, dtype=torch.int64)}
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    exported = record(tmp_path, model, optimizer, lr_schedule=lambda step: 1.0, data=data, epochs=3)
    assert len(exported.metadata["learning_rates"]) == 3 * (11 // 4)


def test_a_schedule_without_a_length_is_refused(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    with pytest.raises(ExportError, match="without a length; give epochs or steps"):
        record(tmp_path, model, optimizer, lr_schedule=lambda step: 1.0)


def test_a_schedule_of_losses_is_refused(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer)
    with pytest.raises(ExportError, match="ReduceLROnPlateau depends on the losses"):
        record(tmp_path, model, optimizer, lr_schedule=schedule, steps=3)


def test_a_schedule_that_changes_momentum_is_refused(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)
    schedule = lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=10)
    with pytest.raises(ExportError, match="OneCycleLR changes momentum"):
        record(tmp_path, model, optimizer, lr_schedule=schedule, steps=10)


def test_a_schedule_shorter_than_the_run_is_refused(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    schedule = lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=5, cycle_momentum=False)
    with pytest.raises(ExportError, match="OneCycleLR cannot be stepped 10 times"):
        record(tmp_path, model, optimizer, lr_schedule=schedule, steps=10)

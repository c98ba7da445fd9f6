"""Tests that every learning-rate schedule of PyTorch becomes the table of rates that it would
set, and that what depends on a run's losses is refused by name."""

import pathlib
from typing import Any, Callable, Optional

import pytest
import torch
from exporting import Exported, classify, export
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.swa_utils import SWALR

from fsdp_mlir import ExportError

STEPS = 12


def record(tmp_path: pathlib.Path, model: nn.Module, optimizer: torch.optim.Optimizer, **options):
    return export(classify(model, optimizer=optimizer, **options), tmp_path)


def linear(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
    return lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 3)


def cosine(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
    return lr_scheduler.CosineAnnealingLR(optimizer, 4, eta_min=1e-3)


# Each class, or a name where one class has several ways.
SCHEDULES: dict[Any, Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler]] = {
    lr_scheduler.LambdaLR: lambda o: lr_scheduler.LambdaLR(
        o, [lambda i: 0.9**i, lambda i: 1 / (1 + i)]
    ),
    lr_scheduler.MultiplicativeLR: lambda o: lr_scheduler.MultiplicativeLR(
        o, lambda i: 0.5 if i % 3 == 0 else 1.0
    ),
    lr_scheduler.StepLR: lambda o: lr_scheduler.StepLR(o, 4, gamma=0.3),
    lr_scheduler.MultiStepLR: lambda o: lr_scheduler.MultiStepLR(o, [2, 5, 5]),
    lr_scheduler.ConstantLR: lambda o: lr_scheduler.ConstantLR(o, 0.2, total_iters=3),
    lr_scheduler.LinearLR: linear,
    lr_scheduler.ExponentialLR: lambda o: lr_scheduler.ExponentialLR(o, 0.7),
    lr_scheduler.PolynomialLR: lambda o: lr_scheduler.PolynomialLR(o, 9, power=2.0),
    lr_scheduler.CosineAnnealingLR: cosine,
    lr_scheduler.CosineAnnealingWarmRestarts: lambda o: lr_scheduler.CosineAnnealingWarmRestarts(
        o, 3, T_mult=2
    ),
    lr_scheduler.CyclicLR: lambda o: lr_scheduler.CyclicLR(
        o, 0.01, [0.1, 0.2], step_size_up=3, mode="triangular2", cycle_momentum=False
    ),
    "cycles of momentum": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    lr_scheduler.OneCycleLR: lambda o: lr_scheduler.OneCycleLR(
        o, [0.5, 1.0], total_steps=STEPS, cycle_momentum=False
    ),
    "one cycle of momentum": lambda o: lr_scheduler.OneCycleLR(o, [0.5, 1.0], total_steps=STEPS),
    lr_scheduler.SequentialLR: lambda o: lr_scheduler.SequentialLR(
        o, [linear(o), cosine(o)], milestones=[3]
    ),
    lr_scheduler.ChainedScheduler: lambda o: lr_scheduler.ChainedScheduler([linear(o), cosine(o)]),
    "sequential of chained": lambda o: lr_scheduler.SequentialLR(
        o,
        [
            lr_scheduler.ChainedScheduler([linear(o), lr_scheduler.ExponentialLR(o, 0.9)]),
            cosine(o),
        ],
        milestones=[4],
    ),
    SWALR: lambda o: SWALR(o, swa_lr=0.05, anneal_epochs=5),
}


class Toggling(lr_scheduler.LRScheduler):
    """Changes what is no number."""

    def get_lr(self) -> list[float]:
        for group in self.optimizer.param_groups:
            group["nesterov"] = self.last_epoch % 2 == 1
        return [group["lr"] for group in self.optimizer.param_groups]


REFUSED = {
    lr_scheduler.ReduceLROnPlateau: (
        lr_scheduler.ReduceLROnPlateau,
        "ReduceLROnPlateau depends on the losses",
    ),
    "a flag": (Toggling, "Toggling changes nesterov, which is no number"),
}


def test_every_class_has_a_case() -> None:
    classes = {getattr(lr_scheduler, name) for name in lr_scheduler.__all__}
    assert classes - {lr_scheduler.LRScheduler} <= SCHEDULES.keys() | REFUSED.keys()


@pytest.mark.parametrize("tensor", [False, True], ids=["number", "tensor"])
@pytest.mark.parametrize("case", SCHEDULES, ids=lambda c: getattr(c, "__name__", c))
def test_a_scheduler_becomes_a_table_and_is_put_back(
    tmp_path: pathlib.Path, case: Any, tensor: bool
) -> None:
    """Of two groups; the rates may be tensors, which schedulers change in place."""
    model = nn.Linear(8, 3)
    wrap = torch.tensor if tensor else float
    optimizer = torch.optim.SGD(
        [{"params": [model.weight]}, {"params": [model.bias], "lr": wrap(1.0)}],
        lr=wrap(0.5),
        momentum=0.9,
    )
    scheduler = SCHEDULES[case](optimizer)
    before = _numbers(optimizer)
    exported = record(tmp_path, model, optimizer, lr_schedule=scheduler, steps=STEPS)
    assert _numbers(optimizer) == before
    schedule = exported.metadata["schedule"]
    for step, row in enumerate(schedule["rows"]):
        for column, value in zip(schedule["columns"], row, strict=True):
            assert value == _numbers(optimizer)[column["group"]][column["name"]]
        optimizer.step()
        if step + 1 < STEPS:
            scheduler.step()
    names = [column["name"] for column in schedule["columns"]]
    assert names == ["lr", "lr"] + ["momentum"] * (2 if "momentum" in str(case) else 0)
    assert len({tuple(row) for row in schedule["rows"]}) > 1


def _numbers(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [{**group, "lr": float(group["lr"])} for group in optimizer.param_groups]


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: getattr(c, "__name__", c))
def test_what_only_a_run_knows_is_refused(tmp_path: pathlib.Path, case: Any) -> None:
    make, message = REFUSED[case]
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)
    with pytest.raises(ExportError, match=message):
        record(tmp_path, model, optimizer, lr_schedule=make(optimizer), steps=STEPS)


def test_a_function_scales_each_groups_rate(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    exported = record(tmp_path, model, optimizer, lr_schedule=lambda step: 1 / (step + 1), steps=3)
    assert exported.metadata["schedule"]["rows"] == [[0.5], [0.25], [0.5 * (1 / 3)]]


@pytest.mark.parametrize(
    "factor, text",
    (
        (None, r"lr_schedule\(1\) gives NoneType; return the number"),
        (float("nan"), "sets lr of parameter group 0 to nan when it has been stepped 1 times"),
    ),
)
def test_a_function_gives_finite_numbers(factor: Any, text: str, tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    with pytest.raises(ExportError, match=text):
        schedule = lambda step: factor if step else 1.0
        record(tmp_path, model, optimizer, lr_schedule=schedule, steps=3)


def test_epochs_give_the_table_one_ranks_steps(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    data = {"x": torch.randn(11, 8), "y": torch.zeros(11, dtype=torch.int64)}
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    exported = record(tmp_path, model, optimizer, lr_schedule=lambda step: 1.0, data=data, epochs=3)
    assert len(exported.metadata["schedule"]["rows"]) == 3 * (11 // 4)


def test_a_schedule_without_a_length_is_refused(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    with pytest.raises(ExportError, match="without a length; give epochs or steps"):
        record(tmp_path, model, optimizer, lr_schedule=lambda step: 1.0)


@pytest.mark.provokes("FSDP-E0225")
def test_a_schedule_shorter_than_the_run_is_refused(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    schedule = lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=5, cycle_momentum=False)
    with pytest.raises(ExportError, match="OneCycleLR cannot be stepped 10 times"):
        record(tmp_path, model, optimizer, lr_schedule=schedule, steps=10)


@pytest.mark.parametrize("ranks, steps", [(None, 2), ("2", 1)])
def test_a_schedule_of_epochs_changes_behind_each(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, ranks: Optional[str], steps: int
) -> None:
    """How many steps an epoch has depends on the number of ranks."""
    if ranks:
        monkeypatch.setenv("WORLD_SIZE", ranks)
    exported = epochs_of_two_steps(
        tmp_path, lambda o: lr_scheduler.StepLR(o, 1, 0.5), every="epoch"
    )
    rates = [row[0] for row in exported.metadata["schedule"]["rows"]]
    assert rates == [0.5 * 0.5 ** (step // steps) for step in range(6)]
    assert not exported.warnings
    assert exported.notes[0].startswith(f"lr_schedule changes behind each epoch, which is {steps}")


def epochs_of_two_steps(
    tmp_path: pathlib.Path,
    schedule: Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler],
    every: Optional[str] = None,
    epochs: int = 3,
) -> Exported:
    """Of batches of 4."""
    model = nn.Linear(8, 3)
    data = {"x": torch.randn(11, 8), "y": torch.zeros(11, dtype=torch.int64)}
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    return record(
        tmp_path,
        model,
        optimizer,
        lr_schedule=schedule(optimizer),
        lr_schedule_every=every,
        data=data,
        epochs=epochs,
    )


LIKE_EPOCHS = {
    "changes no rate in the 6 steps": (lambda o: lr_scheduler.StepLR(o, 30), 3),
    "MultiStepLR, which changes no rate": (lambda o: lr_scheduler.MultiStepLR(o, [30, 60]), 3),
    "counts to 3, and the run has 3 epochs of 2 steps on one rank": (
        lambda o: lr_scheduler.CosineAnnealingLR(o, 3),
        3,
    ),
    "SequentialLR, which counts to 2": (
        lambda o: lr_scheduler.SequentialLR(o, [linear_of_one(o), linear_of_one(o)], [2]),
        3,
    ),
    "less than a thousandth of the largest rate in 12 of the 20 steps": (
        lambda o: lr_scheduler.ExponentialLR(o, 0.4),
        10,
    ),
}


def linear_of_one(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
    return lr_scheduler.LinearLR(optimizer, total_iters=1)


@pytest.mark.parametrize("words", LIKE_EPOCHS)
def test_a_scheduler_that_seems_to_count_epochs_is_warned_of(
    tmp_path: pathlib.Path, words: str
) -> None:
    make, epochs = LIKE_EPOCHS[words]
    (warning,) = epochs_of_two_steps(tmp_path, make, epochs=epochs).warnings
    assert words in warning and 'lr_schedule_every="epoch" if it counts epochs' in warning
    assert not epochs_of_two_steps(tmp_path, make, "step", epochs).warnings


def test_a_schedule_of_steps_is_not_warned_of(tmp_path: pathlib.Path) -> None:
    schedule = lambda o: lr_scheduler.CosineAnnealingLR(o, 6)
    assert not epochs_of_two_steps(tmp_path, schedule).warnings


def test_one_cycle_of_epochs_is_told_how_to_count_them(tmp_path: pathlib.Path) -> None:
    schedule = lambda o: lr_scheduler.OneCycleLR(o, 1.0, total_steps=3, cycle_momentum=False)
    with pytest.raises(ExportError, match='stepped 6 times.*lr_schedule_every="epoch"'):
        epochs_of_two_steps(tmp_path, schedule)


def test_epochs_without_a_length_are_refused(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    schedule = lr_scheduler.StepLR(optimizer, 1)
    with pytest.raises(ExportError, match='"epoch", and on 1 ranks an epoch has no steps'):
        record(tmp_path, model, optimizer, lr_schedule=schedule, lr_schedule_every="epoch", steps=6)

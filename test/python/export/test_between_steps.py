"""Tests that a loss which reads an optimizer or a scheduler does not keep their numbers of the export
without a word."""

import pathlib
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, export
from torch import Tensor, nn

from fsdp_mlir import ExportError, TrainingStep

LOCK = threading.RLock()


class Loss:
    """A loss that computes with what `reads` an optimizer and a scheduler."""

    def __init__(self, reads: str, runs: bool = False) -> None:
        self.model = nn.Linear(8, 3)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)
        self.reads, self.runs = reads, runs

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if not self.runs:
            return F.cross_entropy(model(x), y) * self.factor()
        with LOCK:  # which Dynamo does not follow
            return F.cross_entropy(model(x), y) * self.factor()

    def factor(self) -> Any:
        if self.reads == "rate":
            return 1 + self.optimizer.param_groups[0]["lr"]
        if self.reads == "betas":
            return 1 + self.optimizer.param_groups[0]["betas"][1]
        if self.reads == "last-rate":
            return 1 + self.scheduler.get_last_lr()[0]
        if self.reads == "epoch":
            return 1 + self.scheduler.last_epoch
        if self.reads == "state":
            return 1 + len(self.optimizer.state)
        # What nobody changes, or has no part in the loss.
        _ = self.optimizer.param_groups[0]["lr"]
        return 1 + self.scheduler.step_size

    def step(self, **options: Any) -> TrainingStep:
        return classify(self.model, loss=self, optimizer=self.optimizer, **options)

    def scheduled(self) -> TrainingStep:
        return self.step(lr_schedule=self.scheduler, steps=3)


COMPUTES = r"test_between_steps.py:\d+: the step computes with a number that an optimizer's param"


@pytest.mark.provokes("FSDP-E0207")
@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("reads", ["rate", "betas", "last-rate", "epoch"])
def test_a_number_that_a_schedule_changes_is_refused(
    tmp_path: pathlib.Path, reads: str, runs: bool
) -> None:
    with pytest.raises(ExportError, match=f"^{COMPUTES}.* Count the steps in a buffer"):
        export(Loss(reads, runs).scheduled(), tmp_path)


@pytest.mark.parametrize("runs", [False, True])
def test_without_a_schedule_it_is_a_warning(tmp_path: pathlib.Path, runs: bool) -> None:
    loss = Loss("rate", runs)
    (warning,) = assert_same_as_eager(loss.step(), tmp_path).warnings
    assert "keeps the one of now, whoever sets it" in warning
    assert loss.optimizer.param_groups[0]["lr"] == 0.1 and loss.scheduler.last_epoch == 0


def test_what_is_read_in_vain_is_none(tmp_path: pathlib.Path) -> None:
    assert not assert_same_as_eager(Loss("nothing").scheduled(), tmp_path).warnings


@pytest.mark.provokes("FSDP-E0207")
@pytest.mark.parametrize("runs", [False, True])
def test_the_state_of_an_optimizer_is_refused(tmp_path: pathlib.Path, runs: bool) -> None:
    loss = Loss("state", runs)
    text = r"^test_between_steps.py:\d+: the loss reads the state of an optimizer"
    with pytest.raises(ExportError, match=text):
        export(loss.step(), tmp_path)
    assert len(loss.optimizer.state) == 0

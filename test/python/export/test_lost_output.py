"""Tests that what a loss prints and logs is no part of its step, and that its lines are named, since
a run shows nothing of it."""

import logging
import pathlib
import warnings
from threading import Lock
from typing import Callable

import pytest
import torch
from exporting import classify, export
from torch import nn

LOGGER = logging.getLogger("a user's")
LOCK = Lock()


class Chatty(nn.Linear):
    def __init__(self, say: Callable[[torch.Tensor], None], runs: bool) -> None:
        super().__init__(8, 3)
        self.say, self.runs = say, runs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = super().forward(x)
        if self.runs:
            with LOCK:  # Dynamo gives up here
                self.say(result)
        else:
            self.say(result)
        return result


WAYS = {
    "print": lambda y: print(y.mean()),
    "a logger's warning": lambda y: LOGGER.warning("mean %s", y.mean()),
    "warn": lambda y: warnings.warn("a user's"),
}


# A warning of code that runs is seen then.
CASES = [(what, runs) for runs in (False, True) for what in WAYS if not runs or what != "warn"]


@pytest.mark.parametrize("what, runs", CASES)
def test_lines_whose_output_is_lost_are_named_once(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture,
    caplog: pytest.LogCaptureFixture,
    what: str,
    runs: bool,
) -> None:
    step = classify(
        Chatty(WAYS[what], runs),
        eval_data={"x": torch.randn(9, 8), "y": torch.zeros(9, dtype=torch.int64)},
    )
    (warning,) = export(step, tmp_path).warnings
    line = WAYS[what].__code__.co_firstlineno
    assert warning.startswith(f"test_lost_output.py:{line}: {what} in the loss shows nothing")
    assert capsys.readouterr() == ("", "")
    assert LOGGER.name not in {record.name for record in caplog.records}


def test_a_number_that_is_printed_is_named(tmp_path: pathlib.Path) -> None:
    (warning,) = export(
        classify(Chatty(lambda y: print(y.mean().item()), False)), tmp_path
    ).warnings
    assert "print in the loss shows nothing" in warning


def test_a_silent_logger_is_not_named(tmp_path: pathlib.Path) -> None:
    step = classify(Chatty(lambda y: LOGGER.info("mean"), False))
    assert not export(step, tmp_path).warnings

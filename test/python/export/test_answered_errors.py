"""Tests that a step which goes on behind an error does so by values, where a check that only raises is left
out; and what is said of errors for which no plan looks."""

from __future__ import annotations

import math
import pathlib
from typing import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exporting import assert_trains_as_eager, classify, export, installed
from torch import Tensor, nn

from fsdp_mlir import ExportError


class OwnError(Exception):
    pass


def checked(x: Tensor) -> Tensor:
    if x.sum() > 0:
        raise ValueError("a sum above 0")
    return x * 2


def by_its_own_error(x: Tensor) -> Tensor:
    try:
        if (x.sum() > 0).item():
            raise OwnError()
        return x * 2
    except OwnError:
        return x * 3


def by_an_error_of_what_it_calls(x: Tensor) -> Tensor:
    try:
        return checked(x)
    except (TypeError, ValueError):
        return x * 3


def by_a_kind_of_error(x: Tensor) -> Tensor:
    try:
        return checked(x)
    except Exception:
        return x * 3


class Calls(nn.Module):
    """Computes with what `function` gives."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.head, self.function = nn.Linear(8, 8), nn.Linear(8, 3), function

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.function(self.first(x))))


@pytest.mark.parametrize(
    "function", [by_its_own_error, by_an_error_of_what_it_calls, by_a_kind_of_error]
)
def test_both_ways_are_eagers(function: Callable[[Tensor], Tensor]) -> None:
    assert_trains_as_eager(lambda: Calls(function))


ASSERTS = """
def answered(x):
    try:
        assert x.sum() < 0
    except AssertionError:
        x = 3 * x
    return x
"""


def test_an_assertion_that_may_fail(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file of its own, since pytest rewrites those of a test's."""
    library = installed("asserting_library", ASSERTS, tmp_path, monkeypatch)
    assert_trains_as_eager(lambda: Calls(library.answered))


def raises_another(x: Tensor) -> Tensor:
    try:
        return checked(x - 100)
    except ValueError as error:
        raise RuntimeError("not so") from error


def answers_another(x: Tensor) -> Tensor:
    try:
        return checked(x - 100)
    except KeyError:
        return x * 3


@pytest.mark.parametrize("function", [raises_another, answers_another])
def test_a_check_that_ends_the_step_is_left_out(
    function: Callable[[Tensor], Tensor], tmp_path: pathlib.Path
) -> None:
    notes = export(classify(Calls(function)), tmp_path).notes
    assert [note for note in notes if "a check of values is left out" in note]


def decomposes(x: Tensor) -> Tensor:
    return x @ torch.linalg.cholesky(x.T @ x + 9 * torch.eye(8))


def answers_a_decomposition(x: Tensor) -> Tensor:
    try:
        return decomposes(x)
    except torch.linalg.LinAlgError:
        return x


def test_errors_of_linear_algebra_are_not_looked_for(tmp_path: pathlib.Path) -> None:
    (said,) = export(classify(Calls(decomposes)), tmp_path).notes
    place = f"test_answered_errors.py:{decomposes.__code__.co_firstlineno + 1}: "
    assert said.startswith(f"{place}a plan does not look whether linalg.cholesky fails")


def test_an_answer_to_such_an_error_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        ExportError, match=r"errors.py:\d+: .* goes on behind an error of linalg.cho"
    ):
        export(classify(Calls(answers_a_decomposition)), tmp_path)


def skips_what_is_not_finite(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    loss = F.cross_entropy(model(x), y)
    if not math.isfinite(loss) or math.isnan(loss.item()) or np.isinf(loss.item()):
        return 0 * model.weight.sum()
    return loss


def test_a_number_is_asked_whether_it_is_finite() -> None:
    batches = [{"x": torch.randn(4, 8), "y": torch.randint(3, (4,))} for _ in range(3)]
    batches[1]["x"][0, 0] = math.inf
    assert_trains_as_eager(lambda: nn.Linear(8, 3), skips_what_is_not_finite, batches)

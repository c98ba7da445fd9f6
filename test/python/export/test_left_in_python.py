"""Tests that what one way through a step leaves in Python, and another way reads, is a buffer where it
is a number, and else refused by line."""

from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest
import torch
from exporting import assert_trains_as_eager, classify, export
from torch import Tensor, nn

from fsdp_mlir import ExportError


class Keeps(nn.Linear):
    def __init__(self, uses: Callable[[Any, Tensor, Tensor], Tensor]) -> None:
        super().__init__(8, 3)
        self.uses, self.count, self.begun, self.last = uses, 1, False, None
        self.text, self.items, self.lists, self.mean = "", [], {}, torch.ones(3)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.uses(self, x, super().forward(x))


def sets_a_number(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        m.count = 5
    else:
        y = y * m.count
    return y


def counts_what_it_meets(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        m.count += 1
    elif m.count > 2:
        y = -y
    return y


def begins_once(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    if not m.begun:
        m.scale.copy_(y.detach().std(0))
        m.begun = True
    return y / m.scale


def keeps_a_tensor(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        m.mean = y.detach().mean(0)
    else:
        y = y * m.mean
    return y


def waits(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    """As a schedule that waits for a loss to fall."""
    value = y.square().mean().item()
    m.count = 0 if value < 0.5 else m.count + 1
    m.last = y.detach()  # which nothing reads
    return y * 0.5 if m.count > 1 else y


def makes_a_tensor(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        m.last = y.detach().mean(0)
    elif m.last is not None:
        y = y * m.last
    return y


MADE = [sets_a_number, counts_what_it_meets, begins_once, keeps_a_tensor, waits, makes_a_tensor]


@pytest.mark.parametrize("uses", MADE)
def test_numbers_and_tensors_are_buffers(uses: Any) -> None:
    assert_trains_as_eager(lambda: Keeps(uses))


def grows_a_list(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:  # here
        m.items.append(1)
    elif len(m.items) > 1:
        y = -y
    return y


def writes_a_text(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:  # here
        m.text = "seen"
    elif m.text == "seen":
        y = -y
    return y


def has_the_mean(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    """Of all steps' numbers, which is the same where they are."""
    m.items.append(y.abs().max().item())
    return y / (sum(m.items) / len(m.items))


def has_a_ratio(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    """Of numbers of several tensors, as 1 of any two that are the same."""
    mean, deviation = m.items or (1.0, 1.0)
    m.items[:] = [y.mean().item(), y.std().item()]
    return y * (mean / deviation)


def has_the_first(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    m.items.append(y.abs().max().item())
    return y / m.items[0]


def has_its_length(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    """In no sum of the first two steps."""
    m.items.append(1)
    return y * (1 + len(m.items) // 3)


def has_the_length_of_a_new_list(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    m.lists.setdefault("norms", []).append(1)
    return y * (1 + len(m.lists["norms"]) // 3)


def asks_whether_it_is_true(m: Keeps, x: Tensor, y: Tensor) -> Tensor:
    y = y * 2 if m.begun is True else y
    m.begun = True
    return y


@pytest.mark.provokes("FSDP-E0207")
def test_a_flag_of_which_code_asks_for_the_object_is_refused(tmp_path: pathlib.Path) -> None:
    text = (
        r"^test_left_in_python.py:\d+: .* model.begun, a flag that it changes, `is` True or False"
    )
    with pytest.raises(ExportError, match=text):
        export(classify(Keeps(asks_whether_it_is_true)), tmp_path)


HISTORIES = (has_the_mean, has_a_ratio, has_the_first, has_its_length)


@pytest.mark.provokes("FSDP-E0207")
@pytest.mark.parametrize("uses", [*HISTORIES, has_the_length_of_a_new_list])
def test_a_history_is_refused(uses: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        ExportError, match=r"test_left_in_python.py:\d+: .*(model\.(items|lists)|an earlier run)"
    ):
        export(classify(Keeps(uses)), tmp_path)


@pytest.mark.provokes("FSDP-E0207")
@pytest.mark.parametrize("uses", [grows_a_list, writes_a_text])
def test_other_things_are_refused(uses: Any, tmp_path: pathlib.Path) -> None:
    line = uses.__code__.co_firstlineno + 1
    with pytest.raises(
        ExportError, match=rf"^test_left_in_python.py:{line}: values decide here what"
    ):
        export(classify(Keeps(uses)), tmp_path)

"""Tests that what tensors of the code's own numbers hold is known while a step is captured: masks,
lengths and positions, by which it branches or selects."""

import pathlib
import threading
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, compare, export
from torch import nn

from fsdp_mlir import ExportError


class Causal(nn.Module):
    """Keeps a mask that it makes in its first step, and asks what is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.mask = nn.Linear(8, 3), None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.mask is None:
            self.mask = torch.ones(4, 4).tril()
        if (self.mask == torch.ones_like(self.mask).tril()).all():
            rows = torch.nonzero(self.mask[1]).squeeze(-1)
            return self.layer(self.mask @ x)[rows].repeat(2, 1)
        return self.layer(x)


def test_values_that_the_code_gives_are_known(tmp_path: pathlib.Path) -> None:
    exported = assert_same_as_eager(classify(Causal()), tmp_path)
    (said,) = exported.warnings
    assert "changes Python state of model.mask" in said


def pads(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    parts = x.split([3, 1])
    lengths = torch.tensor([len(part) for part in parts])
    kept = torch.arange(lengths.amax().item()) < lengths[:, None]
    padded = nn.utils.rnn.pad_sequence(parts, batch_first=True)
    return (model(padded).square().sum(-1) * kept).mean()


def leaves_the_diagonal_out(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rows = model(x)
    others = ~torch.eye(len(x), dtype=torch.bool)
    return (rows @ rows.T)[others].view(len(x), -1).logsumexp(1).mean()


def selects_by_a_mask(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    products = model(x) @ model(x).T
    others = (torch.ones_like(products) - torch.eye(len(x))).bool()
    return products.masked_select(others).view(len(x), -1).logsumexp(1).mean()


def fills_an_empty_tensor(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """As ERNIE-VL's places of pictures, each behind those before it."""
    counts, begins = torch.tensor([1, 2]), torch.empty(2, dtype=torch.long)
    begins[0] = 0
    begins[1:] = counts.cumsum(0)[:-1]
    places = [torch.arange(begin, begin + count) for begin, count in zip(begins, counts)]
    return model(x)[torch.cat(places)].square().mean()


SCALES = np.array([0.5, 2.0])


def reads_an_array(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rows = model(x)[: int(SCALES[1] + 1)]
    return rows.square().mean() * float(SCALES[0] + 1)


LOSSES = (
    *(pads, leaves_the_diagonal_out, selects_by_a_mask, reads_an_array),
    fills_an_empty_tensor,
)


@pytest.mark.parametrize("loss", LOSSES)
def test_numbers_and_sizes_that_the_code_gives_are_known(loss: Any, tmp_path: pathlib.Path) -> None:
    assert_same_as_eager(classify(nn.Linear(8, 3), loss=loss), tmp_path)


def test_values_of_the_step_are_not_known(tmp_path: pathlib.Path) -> None:
    """With another mask the step goes the other way."""
    model = Causal()
    model.mask = nn.Parameter(torch.ones(4, 4).tril())
    step = classify(model)
    exported = export(step, tmp_path)
    for mask in (torch.ones(4, 4).tril(), torch.ones(4, 4)):
        with torch.no_grad():
            model.mask.copy_(mask)
        compare(step, exported, step.inputs)


def picks_from_a_table(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    table = torch.tensor([0.5, 2.0, 3.0])
    with threading.Lock():  # Dynamo gives up here
        return F.cross_entropy(model(x), y) * len(str(table[y[:1]].sum().item()))


@pytest.mark.provokes("FSDP-E0206")
def test_what_is_picked_from_known_values_is_not_known(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ExportError, match="reads a tensor's value as a Python number"):
        export(classify(nn.Linear(8, 3), loss=picks_from_a_table), tmp_path)

"""Tests that writes into parts of a tensor are exported without copies of the whole."""

import pathlib

import torch
from exporting import assert_same_as_eager, classify
from torch import nn


class DeltaRule(nn.Module):
    """Rows that are written one after the other, each from those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(8, 36), nn.Linear(36, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t = self.inner(x).view(4, 6, 6).tril(-1).neg()
        for i in range(1, 6):
            row, above = t[..., i, :i].clone(), t[..., :i, :i].clone()
            t[..., i, :i] = row + (row.unsqueeze(-1) * above).sum(-2)
        return self.head(t.flatten(1))


class PartOfPart(nn.Module):
    """Gradients that are padded along one dimension more than once, and along several."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(8, 30), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t = self.inner(x).view(4, 5, 6)
        return self.head(t[:, 1:4][:, :-1][:, 1, -4:][:, 1:] + t[:, -1, ::2])


def test_rows_written_one_after_the_other(tmp_path: pathlib.Path) -> None:
    ops = assert_same_as_eager(classify(DeltaRule()), tmp_path).ops()
    assert "aten::copy" not in ops and "aten::new_empty_strided" not in ops
    # Forward and backward, each row is put together and written.
    assert ops.count("aten::select_scatter") == ops.count("aten::cat") == 2 * 5
    assert "aten::slice_scatter" not in ops


def test_gradient_of_a_part_of_a_part(tmp_path: pathlib.Path) -> None:
    ops = assert_same_as_eager(classify(PartOfPart()), tmp_path).ops()
    # Of `::2`, which leaves gaps, the gradient of the slice stays as it was.
    padding = ("aten::constant_pad_nd", "aten::slice_backward", "aten::select_backward")
    assert [ops.count(op) for op in padding] == [1, 1, 1]

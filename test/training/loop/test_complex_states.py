"""Tests that a loop's run takes complex tensors where it has pairs of numbers."""

from __future__ import annotations

import pathlib

import torch
from torch import nn

import fsdp_mlir
from fsdp_mlir import TrainingStep


class Filter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 8, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.weight * x).abs()


def test_complex_tensors_are_taken(tmp_path: pathlib.Path) -> None:
    model = Filter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    loss = lambda model, x: model(x).mean()
    step = TrainingStep(model, loss, optimizer, {"x": torch.randn(3, 8)})
    first, second = torch.randn(2, 3, 8, dtype=torch.complex64)
    torch.save({"weight": first}, tmp_path / "first.pt")
    with fsdp_mlir.compile(step, out=tmp_path / "out", weights=tmp_path / "first.pt") as run:
        assert torch.equal(run.state_dict()["weight"], torch.view_as_real(first))
        run.load_state_dict({"weight": second})
        assert torch.equal(run.state_dict()["weight"], torch.view_as_real(second))

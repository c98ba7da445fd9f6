"""Tests that all that a plan computes is compared with the sequential step, whatever form passes give
to it."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fsdp_mlir import TrainingStep
from support import chain


class Model(nn.Module):
    """Has parameters without dimensions, of pairs of numbers, and with gradients by channels."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.filter = nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))
        self.convolution = nn.Conv2d(4, 4, 1).to(memory_format=torch.channels_last)
        self.norm, self.head = nn.BatchNorm2d(4), nn.Linear(4 * 36, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        modes = torch.fft.rfft(x) * self.filter[:, None, :4]
        x = torch.fft.irfft(modes, n=6).contiguous(memory_format=torch.channels_last)
        return self.head(self.norm(self.convolution(x)).flatten(1)) * self.scale.exp()


def micro_batches(argv: list[str]) -> Any:
    torch.manual_seed(0)
    model = Model()
    return TrainingStep(
        model,
        lambda model, x, y: F.cross_entropy(model(x), y),
        torch.optim.SGD(model.parameters(), lr=0.1),
        {"x": torch.randn(4, 4, 6, 6), "y": torch.tensor([0, 2, 1, 0])},
        accumulate=2,
        steps=1,
    )


@pytest.mark.parametrize(
    "pipeline",
    [
        "mesh=1 reduce-dtype=float16",
        "mesh=2",
        "mesh=2x2 shard-layout=flat reduce-dtype=bfloat16",
    ],
)
def test_every_result_has_a_meaning(tmp_path: pathlib.Path, pipeline: str) -> None:
    plan = chain.compile_step(micro_batches, tmp_path, pipeline=pipeline).plan
    text = chain.command([chain.binary("fsdp-translate"), "--plan-to-json", plan]).stdout
    program = json.loads(text)["programs"]["step"]
    assert program["meaning"]["covered"] > 0
    assert program["meaning"]["uncovered"] == []

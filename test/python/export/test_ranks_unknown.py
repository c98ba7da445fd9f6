"""Tests that a step which would communicate by itself is no silent difference from its PyTorch."""

from __future__ import annotations

import pathlib
from typing import Callable

import pytest
from exporting import classify, export
from torch import Tensor, distributed, nn

HERE = pathlib.Path(__file__).name


class Model(nn.Module):
    def __init__(self, body: Callable[[nn.Module, Tensor], Tensor], decides: bool) -> None:
        super().__init__()
        self.body, self.decides = body, decides
        self.norm, self.head = nn.SyncBatchNorm(8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.head(self.body(self, x))
        if self.decides and y.mean().item() > 0:  # so that Dynamo does not follow the step
            y = y * 2
        return y


def center(model: nn.Module, x: Tensor) -> Tensor:
    mean = x.mean(0)
    if distributed.is_available() and distributed.is_initialized():
        distributed.all_reduce(mean)
    return model.norm.eval()(x - mean)


def normalise(model: nn.Module, x: Tensor) -> Tensor:
    return model.norm(x)


@pytest.mark.parametrize("decides", [False, True])
@pytest.mark.parametrize("body, line", [(center, 2), (normalise, 1)])
def test_the_line_that_asks_is_named(
    body: Callable, line: int, decides: bool, tmp_path: pathlib.Path
) -> None:
    exported = export(classify(Model(body, decides)), tmp_path)
    (said,) = (text for text in exported.warnings if "whether ranks communicate" in text)
    assert said.startswith(f"{HERE}:{body.__code__.co_firstlineno + line}: ")


def test_an_evaluation_does_not_ask(tmp_path: pathlib.Path) -> None:
    exported = export(classify(Model(normalise, False).eval()), tmp_path)
    assert not any("whether ranks communicate" in text for text in exported.warnings)

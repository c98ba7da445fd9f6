"""Tests of numbers with a fraction that a loss reads from tensors and computes with, as Python does:
what Dynamo follows, and what runs."""

import math
import pathlib
import threading
from typing import Any, Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, export
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fsdp_mlir import ExportError

LOCK = threading.RLock()


class Model(nn.Module):
    """A linear layer, whose results `body` changes by a number that it reads."""

    def __init__(self, body: Callable[..., Tensor], runs: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.body, self.runs = body, runs

    def forward(self, x: Tensor) -> Tensor:
        if not self.runs:
            return self.body(self.layer(x), float(x.sigmoid().mean()))
        with LOCK:  # which Dynamo does not follow
            return self.body(self.layer(x), x.sigmoid().mean().item())


def writes_in_place(y: Tensor, lam: float) -> Tensor:
    z = y * 2
    z.mul_(lam).add_(1.0 - lam)
    z -= lam
    return z.div_(lam)


CASES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "mixup": lambda y, lam: lam * y + (1 - lam) * y.flip(0),
    "quotients": lambda y, lam: y / lam + lam / y - lam / 3 * y + y / (2 / lam),
    "differences": lambda y, lam: (lam - y) * (y - lam) + (-lam + abs(lam - 0.75) - 0.1),
    # Each of these is rounded once, as a float64.
    "chains": lambda y, lam: y * (lam * 0.1 * lam + 0.3 - 1 / (lam + 7)) * (lam / 3 / 7),
    "larger": lambda y, lam: y * max(lam, 1 - lam) + y * min(0.3, lam) * y,
    "whole": lambda y, lam: y * (round(10 * lam) + math.floor(-7 * lam))
    - math.ceil(3 * lam)
    - int(-9 * lam),
    "powers": lambda y, lam: y * lam**2,
    "functions": lambda y, lam: y * math.cos(math.pi * lam) + math.exp(-lam / 3) * math.sqrt(lam),
    "numpys": lambda y, lam: y * np.sqrt(lam) + y.square() * (np.float64(0.3) * lam),
    "in-place": writes_in_place,
    "new-tensors": lambda y, lam: y + torch.full((3,), lam) * torch.tensor([lam, 1, 2]),
    "bounds": lambda y, lam: y.clamp(-lam, 0.9).masked_fill(y > 1, lam)
    + torch.where(y > 0, lam, y),
    "comparisons": lambda y, lam: y * (y > lam) + y.square() * (lam - 1 <= y),
    "numbers-without-dimensions": lambda y, lam: y * (y.sum() * lam + lam / y.mean()) * lam,
    "integers": lambda y, lam: y * (torch.arange(3) * lam) + torch.tensor(3) * lam,
    "double": lambda y, lam: (y.double() * lam * 0.1 + y.double().sum() / lam).float(),
    "bfloat16": lambda y, lam: (
        y.bfloat16() * lam / 0.7 + lam - (lam - y.bfloat16() / lam)
    ).float(),
    "bfloat16-quotient": lambda y, lam: (lam / y.bfloat16()).float(),
    "bfloat16-in-place": lambda y, lam: writes_in_place(y.bfloat16(), lam).float(),
    "bfloat16-without-dimensions": lambda y, lam: (y.bfloat16() * (y.bfloat16().sum() * lam) + lam)
    .mul(lam)
    .float(),
    "complex": lambda y, lam: (torch.complex(y, y + 1) * lam - lam).abs(),
    "checkpoints": lambda y, lam: checkpoint(
        lambda y, lam: y.sigmoid() * lam * y.mean().item(), y, lam, use_reentrant=False
    ),
    "a-number-of-bfloat16": lambda y, lam: y * float(y.detach().bfloat16().mean() * lam),
}


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_numbers_have_eagers_bits(tmp_path: pathlib.Path, name: str, runs: bool) -> None:
    if name == "complex" and not runs:
        pytest.skip("Dynamo does not follow it")
    assert_same_as_eager(classify(Model(CASES[name], runs)), tmp_path)


def test_no_note_says_that_python_ran(tmp_path: pathlib.Path) -> None:
    assert not export(classify(Model(CASES["mixup"])), tmp_path).notes


def mixup(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    lam = torch.distributions.Beta(0.4, 0.4).sample().item()
    order = torch.randperm(len(x))
    out = model(lam * x + (1 - lam) * x[order])
    return lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y[order])


def test_a_factor_that_is_drawn(tmp_path: pathlib.Path) -> None:
    assert_same_as_eager(classify(nn.Linear(8, 3), loss=mixup), tmp_path)


REFUSED: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "loop": lambda y, lam: sum((y for _ in range(int(lam * 4))), y),
    "floor": lambda y, lam: y * (lam // 0.1),
    "exponent": lambda y, lam: y.abs() ** lam,
    "base": lambda y, lam: lam**y,
    "alpha": lambda y, lam: torch.add(y, y, alpha=lam),
    "text": lambda y, lam: y * len(f"{lam:.3f}"),
    "root": lambda y, lam: y * np.cbrt(lam),
    "numpys": lambda y, lam: y * (np.float32(0.3) * lam),
    "method": lambda y, lam: y * lam.is_integer(),
    "keyword": lambda y, lam: F.dropout(y, p=lam),
    "larger-of-tensors": lambda y, lam: y * max(lam, y.sum()),
}


@pytest.mark.provokes("FSDP-E0206")
@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_other_uses_are_refused(tmp_path: pathlib.Path, name: str, runs: bool) -> None:
    text = (
        r"^test_python_floats.py:\d+: the step (reads a tensor's value as a Python number; keep "
        r"it a tensor|branches on the value of a tensor|raises to a power .*torch.full\(\(\), n\)|"
        r"gives as alpha= .*: y \+ n \* x)"
    )
    with pytest.raises(ExportError, match=text):
        export(classify(Model(REFUSED[name], runs)), tmp_path)


def test_a_metric_may_be_a_number_that_was_read(tmp_path: pathlib.Path) -> None:
    """Tests that what a script logs as a number is a tensor of the plan."""
    step = classify(
        nn.Linear(8, 3),
        metrics=lambda model, x, y: {"mean": 2 * x.mean().item(), "ones": (y == 1).sum().item()},
    )
    results = assert_same_as_eager(step, tmp_path).run()
    assert results["output", "mean"].item() == 2 * step.inputs["x"].mean().item()
    assert results["output", "ones"].item() == (step.inputs["y"] == 1).sum().item()

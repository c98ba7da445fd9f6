"""Comparisons of a compiled run with a PyTorch one, by bits or by tolerance."""

from __future__ import annotations

import torch

from support.chain import Result
from support.reference import Trained

Tensors = dict[str, torch.Tensor]


def relative(value: torch.Tensor, expected: torch.Tensor) -> float:
    """The norm of the difference in units of the expected value's norm."""
    difference = (value.double() - expected.double()).norm().item()
    return difference / max(expected.double().norm().item(), 1e-30)


def check_names(saved: Tensors, state: Tensors) -> None:
    assert sorted(saved) == sorted(state), "the saved names are not state_dict()'s"
    for name, value in state.items():
        found = saved[name]
        assert (found.dtype, found.shape) == (value.dtype, value.shape), name


def check_bits(run: Result, trained: Trained) -> None:
    """Every step's mean loss and every saved tensor are equal bit for bit."""
    check_names(run.weights, trained.state)
    expected = trained.mean_losses
    assert len(run.losses) == len(expected), "the number of logged steps differs"
    wrong = [i + 1 for i, pair in enumerate(zip(run.losses, expected)) if len({*pair}) > 1]
    assert not wrong, (
        f"losses differ first in step {wrong[0]}: {run.losses[wrong[0] - 1]!r}, "
        f"expected {expected[wrong[0] - 1]!r} ({len(wrong)} of {len(expected)} differ)"
    )
    different = {
        name: relative(run.weights[name], value)
        for name, value in trained.state.items()
        if not torch.equal(run.weights[name], value)
    }
    assert not different, f"tensors that differ, by relative norm: {different}"


def check_close(run: Result, trained: Trained, loss: float = 1e-6) -> None:
    """Losses within `loss`, tensors within ten times that of their norm. The
    biases of attention's keys have a true gradient of zero, and Adam scales its
    rounding up to whole steps: 1e-3 for them."""
    check_names(run.weights, trained.state)
    expected = trained.mean_losses
    assert len(run.losses) == len(expected), "the number of logged steps differs"
    for i, (value, wanted) in enumerate(zip(run.losses, expected)):
        assert abs(value - wanted) <= loss * abs(wanted), f"step {i + 1}'s loss"
    for name, value in trained.state.items():
        bound = max(10 * loss, 1e-3 if name.endswith("key.bias") else 0.0)
        error = relative(run.weights[name], value)
        assert error <= bound, f"{name}: {error:.2e} of its norm"


def check_norms(run: Result, trained: Trained, bound: float = 1e-6) -> None:
    """The norms of gradients, which PyTorch sums in an order of its own."""
    norms = [row["grad_norm"] for row in run.metrics]
    for i, (value, wanted) in enumerate(zip(norms, trained.grad_norms, strict=True)):
        assert abs(value - wanted) <= bound * wanted, f"step {i + 1}'s norm of gradients"

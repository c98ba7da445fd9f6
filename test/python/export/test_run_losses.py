"""Tests that losses whose Python Dynamo cannot follow have eager's bits: gradients of gradients, copies
of the model, hooks."""

import copy
import pathlib
from typing import Callable

import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify
from torch import nn


def penalises_gradients(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x).tanh().sum(), x, create_graph=True)
    return F.cross_entropy(model(x), y) + gradient.square().mean()


def at_sharper_weights(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The second pass of SAM."""
    weights = dict(model.named_parameters())
    gradients = torch.autograd.grad(F.cross_entropy(model(x), y), list(weights.values()))
    scale = 0.05 / torch.stack([g.norm() for g in gradients]).norm()
    moved = {n: p + (g * scale).detach() for (n, p), g in zip(weights.items(), gradients)}
    return F.cross_entropy(torch.func.functional_call(model, moved, (x,)), y)


def copies(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y) * copy.deepcopy({"scale": [2.0]})["scale"][0]


def adapts_a_copy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The inner loop of MAML, of a copy for each task; gradients pass its step, and not the copy."""
    losses = []
    for i in range(2):
        learner = copy.deepcopy(model)
        inner = F.cross_entropy(learner(x[i::2]), y[i::2])
        gradients = torch.autograd.grad(inner, learner.parameters(), create_graph=True)
        moved = {n: p - 0.1 * g for (n, p), g in zip(model.named_parameters(), gradients)}
        losses.append(F.cross_entropy(torch.func.functional_call(model, moved, (x,)), y))
    return sum(losses) + learner(x).square().mean()


def hooks_a_module(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    handle = model.register_full_backward_hook(lambda _, taken, given: (taken[0] * 2,))
    logits = model(x.clone().requires_grad_())
    handle.remove()
    return F.cross_entropy(logits, y)


def moves_modules(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """To where they are."""
    slope = nn.PReLU().requires_grad_(False).to(x.device)
    return F.cross_entropy(slope(model.float()(x)), y)


LOSSES = (
    *(penalises_gradients, at_sharper_weights, copies, adapts_a_copy),
    *(hooks_a_module, moves_modules),
)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses(tmp_path: pathlib.Path, loss: Callable) -> None:
    exported = assert_same_as_eager(classify(nn.Linear(8, 3), loss=loss), tmp_path)
    assert len(exported.notes) == 1

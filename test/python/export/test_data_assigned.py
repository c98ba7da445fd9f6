"""Tests `tensor.data = value` of a tensor that the step itself makes: it has the value's memory from
then on."""

import pathlib
import threading
from typing import Callable

import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify
from torch import Tensor, nn

LOCK = threading.Lock()


def perturbs(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """As adversarial training: steps along the sign of a gradient."""
    noise = torch.zeros_like(x).uniform_(-0.1, 0.1)
    noise.requires_grad = True
    for _ in range(2):
        (gradient,) = torch.autograd.grad(F.cross_entropy(model(x + noise), y), noise)
        noise.data = (noise + 0.04 * gradient.sign()).clamp(-0.1, 0.1)
    return F.cross_entropy(model(x + noise.detach()), y)


def of_the_batch(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    x.data = x.square()
    return F.cross_entropy(model(x), y)


def of_an_activation(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Whose gradient goes by what it was made of."""
    logits = model(x)
    logits.data = logits.data.clamp(-0.2, 0.2)
    return F.cross_entropy(logits * logits, y)


def shared(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """A view from before has the former memory, and a write to the value is seen."""
    tensor, value = torch.zeros(2, 3), model(x).detach()
    view = tensor.view(6)
    tensor.data = value
    value.mul_(2)
    tensor[0] += 1
    view += 1
    return (model(x) * tensor * value).sum() + view.sum()


def of_a_parameter(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Which it has already, in code that Dynamo cannot follow."""
    with LOCK:
        model.weight.data = model.weight.data.to(x.dtype)
    return F.cross_entropy(model(x), y)


@pytest.mark.parametrize("loss", (perturbs, of_the_batch, of_an_activation, shared, of_a_parameter))
def test_data_of_a_tensor_that_the_step_makes(tmp_path: pathlib.Path, loss: Callable) -> None:
    assert_same_as_eager(classify(nn.Linear(8, 3), loss=loss), tmp_path)

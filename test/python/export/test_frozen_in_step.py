"""Tests that parameters which the step itself freezes have the gradients that eager PyTorch gives."""

import pathlib
from typing import Callable

import pytest
import torch
from exporting import assert_same_as_eager, classify, export, sgd
from torch import Tensor, nn
from torch.nn import functional as F

from fsdp_mlir import ExportError, TrainingStep


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).tanh())


def set_requires_grad(module: nn.Module, wanted: bool) -> None:
    """As scripts of GANs have it."""
    for parameter in module.parameters():
        parameter.requires_grad = wanted


def frozen_and_released(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    model.last.requires_grad_(False)
    loss = F.cross_entropy(model(x), y)
    model.last.requires_grad_(True)
    return loss


def frozen_in_a_part(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Which parameters are frozen is what the code sees."""
    loss = F.cross_entropy(model(x), y)
    set_requires_grad(model.last, False)
    frozen = [p for p in model.parameters() if not p.requires_grad]
    loss = loss + len(frozen) * F.cross_entropy(model(-x), y)
    set_requires_grad(model.last, True)
    return loss + model.last.weight.square().sum()


def frozen_for_good(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    set_requires_grad(model.first, False)
    return F.cross_entropy(model(x), y)


@pytest.mark.parametrize("loss", [frozen_and_released, frozen_in_a_part, frozen_for_good])
def test_gradients_are_eagers(tmp_path: pathlib.Path, loss: Callable[..., Tensor]) -> None:
    model = Halves()
    assert_same_as_eager(classify(model, loss=loss), tmp_path)
    set_requires_grad(model, True)


def test_the_model_is_left_as_it_was(tmp_path: pathlib.Path) -> None:
    model = Halves()
    exported = export(classify(model, loss=frozen_for_good), tmp_path)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert exported.results("gradient") == ["last.weight", "last.bias"]
    assert any(
        text.startswith("first.weight, first.bias are trainable but") for text in exported.warnings
    )


def frozen_behind(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The first step trains what later ones do not."""
    loss = F.cross_entropy(model(x), y)
    set_requires_grad(model.first, False)
    return loss


def released(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    set_requires_grad(model.first, True)
    return F.cross_entropy(model(x), y)


@pytest.mark.parametrize(
    "loss, text",
    [
        (frozen_behind, "the step is another one the second time that it runs"),
        (released, "the step makes the frozen parameter first.weight trainable; let it require"),
    ],
)
def test_refusals(tmp_path: pathlib.Path, loss: Callable[..., Tensor], text: str) -> None:
    model = Halves()
    if loss is released:
        set_requires_grad(model.first, False)
    with pytest.raises(ExportError, match=r"^test_frozen_in_step.py:\d+: " + text):
        export(classify(model, loss=loss, optimizer=sgd(model.last)), tmp_path)


def judged(model: nn.Module, x: Tensor) -> Tensor:
    return model.last(model.first(x)).mean()


def turns(toggles: bool) -> TrainingStep:
    """A GAN's: its code freezes one half in the other one's turn, which a turn does anyway."""

    def critic(model: nn.Module, x: Tensor) -> Tensor:
        if toggles:
            set_requires_grad(model.last, True)
        return judged(model, x)

    def maker(model: nn.Module, x: Tensor) -> Tensor:
        if toggles:
            set_requires_grad(model.last, False)
        return -judged(model, x)

    model = Halves()
    optimizers = {"critic": sgd(model.last), "maker": sgd(model.first)}
    return TrainingStep(
        model, {"critic": critic, "maker": maker}, optimizers, {"x": torch.ones(4, 8)}
    )


def test_turns_train_as_without(tmp_path: pathlib.Path) -> None:
    plain, toggled = (export(turns(toggles), tmp_path) for toggles in (False, True))
    for program in ("step", "step_maker"):
        assert toggled.results("gradient", program) == plain.results("gradient", program)
        found, expected = toggled.run(program), plain.run(program)
        assert all(torch.equal(found[key], value) for key, value in expected.items())

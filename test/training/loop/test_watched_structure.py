"""Tests that what a script says of its units, its modules and its step after `compile`, when the
plan is made, is told."""

from __future__ import annotations

import inspect
import pathlib
import warnings
from typing import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import fsdp_mlir
from fsdp_mlir import Run, RunError, TrainingStep, fully_shard

X = torch.ones(4, 6)

Compiled = tuple[nn.Sequential, Run]


def training_step(model: nn.Module) -> TrainingStep:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return TrainingStep(model, lambda model, x: model(x).square().mean(), optimizer, {"x": X})


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiled]:
    """A model of three units, its last layer in none of its own, and its run."""
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4), nn.Linear(4, 3))
    for module in (model[0], model[1], model):
        fully_shard(module)
    step = training_step(model)
    with fsdp_mlir.compile(step, out=tmp_path_factory.mktemp("units")) as run:
        yield model, run


def _line_of(function: Callable[..., object]) -> str:
    return f"{pathlib.Path(__file__).name}:{inspect.getsourcelines(function)[1]}"


NUMBERS: dict[str, tuple[Callable[[nn.Sequential], object], Callable[[nn.Sequential], object]]] = {
    "gradient_divide_factor of the unit 0 was None .* and is 7.0": (
        lambda model: model[0].set_gradient_divide_factor(7),
        lambda model: setattr(model[0]._fsdp_unit, "gradient_divide_factor", None),
    ),
    "forward_methods of the unit 1": (
        lambda model: fsdp_mlir.register_fsdp_forward_method(model[1], "forward"),
        lambda model: model[1]._fsdp_unit.forward_methods.clear(),
    ),
}


@pytest.mark.parametrize("said", NUMBERS)
def test_a_setter_that_would_change_numbers(said: str, compiled: Compiled) -> None:
    """Tests that the next step is an error, which names the setter's line; one that takes back what
    was set is fine."""
    (model, run), (change, back) = compiled, NUMBERS[said]
    change(model)
    with pytest.raises(RunError, match=f"^{_line_of(change)}: {said}.*; call it before compile"):
        run({"x": X})
    back(model)
    run({"x": X})


HINTS: dict[str, Callable[[nn.Sequential], object]] = {
    "reshard_after_forward of the outermost unit": lambda m: m.set_reshard_after_forward(
        False, False
    ),
    "forward_prefetch of the unit 0": lambda m: m[0].set_modules_to_forward_prefetch([m[1]]),
    "backward_prefetch of the unit 1": lambda m: m[1].set_modules_to_backward_prefetch([m[0]]),
}


@pytest.mark.parametrize("said", HINTS)
def test_a_setter_that_is_a_hint(said: str, compiled: Compiled) -> None:
    """Tests that the next step warns, once, at the setter's line."""
    model, run = compiled
    HINTS[said](model)
    with pytest.warns(RuntimeWarning, match=f"^{said} .*changes no number") as found:
        run({"x": X})
    assert [f"{pathlib.Path(w.filename).name}:{w.lineno}" for w in found] == [_line_of(HINTS[said])]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run({"x": X})


def test_a_unit_that_is_made_after_the_plan(tmp_path: pathlib.Path) -> None:
    """Tests that `fully_shard` behind `compile` is an error, and is taken when the step is compiled
    anew; another model's units are nobody's."""
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    step = training_step(model)
    with fsdp_mlir.compile(step, out=tmp_path / "one") as run:
        fully_shard(nn.Linear(2, 2))
        run({"x": X})
        fully_shard(model[0])
        fully_shard(model)
        match = r"^test_watched_structure.py:\d+: fully_shard made the outermost unit after"
        with pytest.raises(RunError, match=match):
            run({"x": X})
    with fsdp_mlir.compile(step, out=tmp_path / "two") as run:
        run({"x": X})


REPLACED: dict[str, Callable[[nn.Module], object]] = {
    "^0 of the model was replaced or removed": lambda m: setattr(m, "0", nn.Linear(6, 5)),
    "^1 of the model was replaced or removed": lambda m: m.__delattr__("1"),
    "^0.weight of the model was replaced or removed": lambda m: prune.identity(m[0], "weight"),
    "^0 of the model was given a hook": lambda m: m[0].register_forward_hook(lambda *_: None),
    "^1.bias of the model was given a hook": lambda m: m[1].bias.register_hook(lambda g: 2 * g),
}


def test_modules_and_hooks_that_come_after_the_plan_are_warned_of(tmp_path: pathlib.Path) -> None:
    for said, change in REPLACED.items():
        model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 2))
        model[0].register_forward_pre_hook(lambda module, inputs: None)
        step = training_step(model)
        with fsdp_mlir.compile(step, out=tmp_path) as run:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                nn.Linear(2, 2).register_forward_hook(lambda *_: None)
                model[1].register_forward_hook(lambda *_: None).remove()
                model.unused = nn.Linear(2, 2)
                run({"x": X})
            change(model)
            with pytest.warns(RuntimeWarning, match=said) as found:
                run({"x": X})
            assert __file__ in [warning.filename for warning in found]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                run({"x": X})
    with fsdp_mlir.compile(training_step(nn.Linear(6, 5)), out=tmp_path) as run:
        step.optimizer.register_step_post_hook(lambda *_: None)
        run({"x": X})


def test_arguments_of_the_step_that_a_script_sets_are_warned_of(tmp_path: pathlib.Path) -> None:
    step = training_step(nn.Linear(6, 5))
    with fsdp_mlir.compile(step, out=tmp_path) as run:
        step.clip_grad_norm = 0.5
        with pytest.warns(
            RuntimeWarning, match="^clip_grad_norm of the TrainingStep was set after"
        ):
            run({"x": X})

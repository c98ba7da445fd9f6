"""Tests that a run goes by the learning rates that a script's schedulers give its optimizer."""

from __future__ import annotations

import gc
import pathlib
import runpy
import warnings
import weakref
from typing import Any, Callable

import pytest
import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict
from torch.optim import lr_scheduler
from torch.optim.swa_utils import SWALR

import fsdp_mlir

from . import step

STEPS = 9
MODELS = pathlib.Path(__file__).parents[2] / "numerics" / "parity" / "models"
Schedule = Callable[[torch.optim.Optimizer], Any]


def made(momentum: float = 0.9) -> fsdp_mlir.TrainingStep:
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 3)
    groups = [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.5}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=momentum)
    return fsdp_mlir.TrainingStep(model, step.loss, optimizer, inputs=step.samples(4))


def steps_of(schedule: Any, take: Callable[[], float]) -> list[float]:
    """A script's loop: the scheduler looks at the losses, or counts."""
    losses = []
    for _ in range(STEPS):
        losses.append(take())
        schedule.step(
            *([losses[-1]] if isinstance(schedule, lr_scheduler.ReduceLROnPlateau) else [])
        )
    return losses


def eager(of: fsdp_mlir.TrainingStep) -> Callable[[], float]:
    def take() -> float:
        of.optimizer.zero_grad()
        loss = of.loss(of.model, **of.inputs)
        loss.backward()
        of.optimizer.step()
        return loss.item()

    return take


@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, "max", 0.3, patience=1),
        lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda row: 1 / (1 + row)),
        lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.7),
        lambda optimizer: SWALR(optimizer, 0.05, anneal_epochs=3),
    ],
    ids=["plateau", "lambda", "exponential", "swa"],
)
def test_a_scheduler_sets_the_runs_rates(schedule: Schedule, tmp_path: pathlib.Path) -> None:
    """As in an eager loop, in every bit and without a warning that no step was taken."""
    theirs, ours = made(), made()
    expected = steps_of(schedule(theirs.optimizer), eager(theirs))
    with warnings.catch_warnings(), fsdp_mlir.compile(ours, cache_dir=tmp_path) as run:
        warnings.simplefilter("error")
        taken = steps_of(schedule(ours.optimizer), lambda: run(ours.inputs).item())
        assert taken == expected
        assert run.lr == [group["lr"] for group in theirs.optimizer.param_groups]
        assert run.lr != [0.1, 0.5]
        for name, value in theirs.model.state_dict().items():
            assert torch.equal(run.state_dict()[name], value)


def test_rates_that_are_set_are_the_optimizers(tmp_path: pathlib.Path) -> None:
    """A scheduler that multiplies them goes on from there."""
    ours = made()
    with fsdp_mlir.compile(ours, cache_dir=tmp_path) as run:
        schedule = lr_scheduler.ExponentialLR(ours.optimizer, 0.5)
        run.lr = [0.2, 0.4]
        run(ours.inputs)
        schedule.step()
        assert run.lr == [0.1, 0.2]


@pytest.mark.provokes("FSDP-E0807")
def test_a_change_of_a_groups_momentum_is_refused(tmp_path: pathlib.Path) -> None:
    ours = made()
    with fsdp_mlir.compile(ours, cache_dir=tmp_path) as run:
        run(ours.inputs)
        ours.optimizer.param_groups[1]["momentum"] = 0.5
        words = r"momentum of the optimizer's group 1 was 0\.9 .* is 0\.5 now.*lr_schedule"
        with pytest.raises(fsdp_mlir.RunError, match=words):
            run(ours.inputs)
        ours.optimizer.param_groups[1]["momentum"] = 0.9
        run(ours.inputs)  # nothing was taken; the run goes on
        assert run.step == 2


def average(run: fsdp_mlir.Run, model: torch.nn.Module, weight: float) -> None:
    """As a schedule-free optimizer's eval() does, and train() back (docs/own-loop.md)."""
    states = run.state_dict(optimizer=True)
    for name, _ in model.named_parameters():
        states[name].lerp_(states[f"state.{name}.z"], weight)
    run.load_state_dict(states)


@pytest.mark.provokes("FSDP-E0807")
@pytest.mark.parametrize("layout", ["dim0", "flat"])
def test_averages_of_a_schedule_free_optimizer(layout: str, tmp_path: pathlib.Path) -> None:
    ours, theirs = made(), made()
    schedule_free = runpy.run_path(str(MODELS / "optimizers.py"))["schedule_free"]
    for each in (ours, theirs):
        each.optimizer = schedule_free(each.model.parameters())
    ours.eval_data = ours.inputs
    take, beta1 = eager(theirs), 0.9
    with pytest.warns(UserWarning, match="ScheduleFree has eval.* the weights that it trains"):
        run = fsdp_mlir.compile(ours, pipeline=f"shard-layout={layout}", cache_dir=tmp_path)
    with run:
        for rate in (0.3, 0.02):
            assert [run(ours.inputs).item() for _ in range(3)] == [take() for _ in range(3)]
            ours.optimizer.eval()
            theirs.optimizer.eval()
            with pytest.raises(fsdp_mlir.RunError, match="train_mode .* was True .* is False now"):
                run.eval(ours.inputs)
            ours.optimizer.train()
            average(run, ours.model, 1 - 1 / beta1)
            # Of the next steps, not of those that were done.
            run.lr = theirs.optimizer.param_groups[0]["lr"] = rate
            with torch.no_grad():
                wanted = theirs.loss(theirs.model, **theirs.inputs).item()
            assert run.eval(ours.inputs)["loss"] == wanted
            average(run, ours.model, 1 - beta1)
            theirs.optimizer.train()
        assert run(ours.inputs).item() == take()
        assert run(ours.inputs).item() == take()


@pytest.mark.provokes("FSDP-E0807")
def test_a_group_that_is_added_later_is_refused(tmp_path: pathlib.Path) -> None:
    ours = made()
    with fsdp_mlir.compile(ours, cache_dir=tmp_path) as run:
        ours.optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))]})
        words = "the optimizer has 3 groups, of 1, 1 and 1 parameters, and had 2 groups, of 1 and 1, when"
        with pytest.raises(fsdp_mlir.RunError, match=words):
            run(ours.inputs)


def test_state_that_is_given_to_the_optimizer_is_warned_of(tmp_path: pathlib.Path) -> None:
    """And names that PyTorch gives it are those that the run takes."""
    ours, theirs = made(), made()
    take = eager(theirs)
    before = [take() for _ in range(2)]
    with fsdp_mlir.compile(ours, cache_dir=tmp_path) as run:
        ours.optimizer.load_state_dict(theirs.optimizer.state_dict())
        with pytest.warns(RuntimeWarning, match=r"given state after .*run\.load_state_dict"):
            assert run(ours.inputs).item() == before[0]
        flat = StateDictOptions(flatten_optimizer_state_dict=True)
        states = get_optimizer_state_dict(theirs.model, theirs.optimizer, options=flat)
        states = {name: value for name, value in states.items() if name.startswith("state.")}
        run.load_state_dict({**theirs.model.state_dict(), **states})
        assert [run(ours.inputs).item() for _ in range(3)] == [take() for _ in range(3)]


def test_a_plan_follows_the_optimizer_that_it_is_given(tmp_path: pathlib.Path) -> None:
    """And does not keep it: it would keep the model's parameters too."""
    fsdp_mlir.compile(made(), out=tmp_path, cache=False).close()
    optimizer = made().optimizer
    optimizer.param_groups[0]["lr"] = 0.3
    with fsdp_mlir.load(
        tmp_path / "step.plan", tmp_path / "step.safetensors", optimizer=optimizer
    ) as run:
        assert run.lr == [0.3, 0.5]
        held = weakref.ref(optimizer)
        del optimizer
        gc.collect()
        assert held() is None
        run(made().inputs)
        assert run.lr == [0.3, 0.5]


def test_a_run_that_nobody_holds_is_over(tmp_path: pathlib.Path) -> None:
    """At once, so that another one may write into its folder of checkpoints."""
    ours = made()
    run = fsdp_mlir.compile(ours, cache_dir=tmp_path)
    run(ours.inputs)
    held = weakref.ref(run)
    gc.disable()
    try:
        del run
        assert held() is None
    finally:
        gc.enable()

"""Trains one model of the zoo through the whole chain and holds it against eager PyTorch.

Export -> import -> passes -> plan -> three steps under `--poison`, with PyTorch's own random
stream; PyTorch computes each rank's gradients on its own batches and averages them. Where last bits
differ, a second look at both names the first operator of eager's whose bits the plan does not have.
"""

from __future__ import annotations

import math
import pathlib
import warnings

import torch

from support import chain, first_difference, reference
from support.outcomes import CLOSE, PASSED, WRONG, Outcome, Stage, failure, same_bits, train
from zoo_step import STEPS

STEP_FILE = pathlib.Path(__file__).resolve().parent / "zoo_step.py"
TOOL_TIMEOUT_S = 200
CLOSE_BOUND = 1e-5
NOISE = 1e-4
# Models whose operators take too long to record.
NOT_NAMED = {"transformers/causal/kimi_linear": "not named: too long to record"}


def check(
    name: str, folder: pathlib.Path, worlds: tuple[int, ...] = (2,), naming: bool = False
) -> Outcome:
    """Runs the model on each number of ranks; never raises for what it does. With `naming`, what is
    close has the operator where this begins."""
    stage = Stage(folder)
    argv = [f"--model={name}"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stage.enter("eager")
            trained = {world: _eager(argv, world) for world in worlds}
            stage.enter("export")
            archive = folder / "step.pt"
            chain.export(STEP_FILE, archive, argv)
            runs = {
                world: train(archive, folder / str(world), stage, world, STEPS, TOOL_TIMEOUT_S)
                for world in worlds
            }
            stage.enter("compare")
            outcomes = {world: _compared(runs[world], trained[world]) for world in worlds}
            world, outcome = max(outcomes.items(), key=lambda pair: _badness(pair[1]))
            if naming and outcome.status == CLOSE:
                stage.enter("operator")
                outcome.operator = NOT_NAMED.get(name) or _operator(
                    argv, archive, folder / str(world), world
                )
        return outcome
    except Exception as error:
        return failure(error, folder, stage, length=400)


def _badness(outcome: Outcome) -> int:
    return (PASSED, CLOSE, WRONG).index(outcome.status)


def _eager(argv: list[str], world: int) -> reference.Trained:
    return reference.trained(reference.load_step(STEP_FILE, argv), world, STEPS)


def _operator(argv: list[str], archive: pathlib.Path, folder: pathlib.Path, world: int) -> str:
    """The first one of eager's whose bits the plan does not have: mostly in the first step."""
    plan, weights = folder / "step.plan", archive.with_suffix(".safetensors")
    for steps in (1, STEPS):
        step = reference.load_step(STEP_FILE, argv)
        planned = first_difference.by_plan(step, plan, weights, world, steps)
        eager = first_difference.by_eager(step, world, steps)
        ends = first_difference.differing(eager, planned)
        call = first_difference.first_difference(eager.calls, planned.calls, ends)
        if call:
            return call.name
    return ""


def _compared(run: chain.Result, trained: reference.Trained) -> Outcome:
    """Bits of each step's loss and of each tensor; else how far the farthest is."""
    if sorted(run.weights) != sorted(trained.state):
        names = sorted(set(run.weights) ^ set(trained.state))
        return Outcome(WRONG, "compare", f"the names of saved tensors differ: {names}")
    gaps: dict[str, float] = {}
    for i, (value, wanted) in enumerate(zip(run.losses, trained.mean_losses, strict=True)):
        value = math.nan if value is None else value  # which JSON has no number for
        if value != wanted and not (math.isnan(value) and math.isnan(wanted)):
            gaps[f"the loss of step {i + 1}"] = abs(value - wanted) / max(abs(wanted), 1e-30)
    for name, value in trained.state.items():
        found = run.weights[name]
        if value.is_complex() and not found.is_complex():
            value = torch.view_as_real(value)  # what is trained is held in pairs
        if not same_bits(found, value):
            same = found.shape == value.shape and found.dtype == value.dtype
            gaps[name] = _gap(found, value) if same else math.inf
    if not gaps:
        return Outcome(PASSED)
    worst = max(gaps, key=lambda name: gaps[name])
    close = all(gap <= CLOSE_BOUND for gap in gaps.values())
    text = f"{worst} differs by {gaps[worst]:.1e} ({len(gaps)} differ)"
    return Outcome(CLOSE if close else WRONG, "compare", text)


def _gap(found: torch.Tensor, value: torch.Tensor) -> float:
    """The norm of the difference in units of the expected value's norm, but of elements of `NOISE`
    at least: of the bias of attention's keys, whose true gradient is zero, only rounding is left.
    """
    if value.is_complex():
        found, value = torch.view_as_real(found), torch.view_as_real(value)
    found, value = found.double(), value.double()
    unit = max(value.norm().item(), NOISE * math.sqrt(value.numel()))
    gap = (found - value).norm().item() / unit
    return math.inf if math.isnan(gap) else gap

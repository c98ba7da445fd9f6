"""Tests that a step of which no rule can be made is refused with the line that is why."""

from __future__ import annotations

import inspect
import math
import re
from typing import Callable

import pytest
import torch
from captured_rule import Own, clips
from torch import nn
from torch.optim import NAdam

from fsdp_mlir import ExportError, TrainingStep
from fsdp_mlir.rules.capture import capture_rules
from fsdp_mlir.rules.optimizer import read_optimizer
from fsdp_mlir.rules.schedule import constant_rates
from fsdp_mlir.step.names import StateNames


def counts(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    optimizer.count += 1
    p.sub_(p.grad, alpha=0.9**optimizer.count)


def has_list(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    optimizer.__dict__.setdefault("seen", []).append(1)
    p.sub_(p.grad, alpha=0.9 ** len(optimizer.seen))


def decays(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    group["lr"] *= 0.9
    p.sub_(p.grad, alpha=group["lr"])


def has_value(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.sub_(p.grad, alpha=float(group["lr"]))


def has_a_remainder(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.sub_(p.grad, alpha=group["lr"] % 2)


def takes_a_part_by_a_mask(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    large = p.grad.abs() > 1.0
    p.grad[large] = p.grad[large] / 2


def compares_all(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    if p.grad.allclose(p):
        p.sub_(p.grad)


def counts_in_state(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    optimizer.state["steps"] = optimizer.state.get("steps", 0) + 1
    p.sub_(p.grad, alpha=optimizer.state["steps"])


def writes_a_part(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p[:3].sub_(p.grad[:3])


def counts_elements(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.sub_(p.grad, alpha=p.grad.count_nonzero().item())


def gives_a_list(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.sub_(torch.cat(torch.unsafe_split(p.grad, 3)))


def draws(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.add_(torch.randn_like(p))


def reads_another(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.add_(optimizer.param_groups[0]["params"][1])


def takes_the_larger(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.sub_(torch._foreach_maximum([p.grad], 0.0)[0])


def counts_in_its_group(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    group["step"] = group.get("step", 0) + 1  # for each parameter
    p.sub_(p.grad, alpha=group["step"])


def keeps_a_norm_in_its_group(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    group["norm"] = p.grad.norm().item()
    p.sub_(p.grad)


def sums_over_all(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    """As optimizers that estimate a distance do, such as Prodigy."""
    distance = sum((q.grad * q).sum() for q in group["params"]).item()
    if distance > 0:
        group["d"] = distance


def begins_late(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    state["step"] = state.get("step", 4) + 1
    p.sub_(p.grad, alpha=state["step"])


def keeps_a_norm(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    state["norm"] = max(state.get("norm", 0.0), p.grad.norm().item())
    p.sub_(p.grad / state["norm"])


def keeps_a_product(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    state["product"] = state.get("product", 1.0) * 0.9
    p.sub_(p.grad.reshape(2, 3).t().reshape(6), alpha=state["product"])


def draws_by_a_rate(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.sub_(torch.empty_like(p).normal_(std=group["lr"]))


def roots_of_sums(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    group["norm"] = math.sqrt(p.grad.square().sum())
    p.sub_(p.grad)


@pytest.mark.provokes("FSDP-E0224")
@pytest.mark.parametrize(
    "update, message",
    [
        (counts, r": the step of Own reads Python state that changes between steps; keep it"),
        (has_list, r": the step of Own reads Python state that changes between steps"),
        (decays, r": the step of Own changes Python state \(lr of its parameter groups\), so that"),
        (has_value, ": the step of Own needs the value of a number that changes between steps"),
        (has_a_remainder, r": the step of Own computes mod of a number .* a count of steps alone"),
        (gives_a_list, ": the step of Own calls aten::unsafe_split.Tensor, which gives no tensor"),
        (writes_a_part, r": the step of Own writes to a tensor of shape \[6\] as to one of \[3\]"),
        (counts_elements, r": the step of Own reads a tensor of torch.int64 as a Python number"),
        (draws, r": the step of Own draws random numbers \(aten.randn_like"),
        (
            reads_another,
            ": the step of Own reads b where it updates a; each parameter is updated by",
        ),
        (
            clips,
            r": the step of Own reads the gradient of b where it updates a; .*clip_grad_norm of",
        ),
        (
            takes_the_larger,
            r": the step of Own calls aten._foreach_maximum.Scalar, which is not followed",
        ),
        (counts_in_its_group, r": the step of Own changes Python state \(step of its parameter gr"),
        (
            takes_a_part_by_a_mask,
            r"as many elements of a tensor as its values say .* torch.where\(",
        ),
        (compares_all, r": the step of Own reads a truth value of tensors \(aten.allclose"),
        (counts_in_state, ": the step of Own keeps 'steps' in self.state, .*keep .* as group"),
        (
            keeps_a_norm_in_its_group,
            "keeps in 'norm' of its parameter groups a number that follows",
        ),
        (
            sums_over_all,
            "branches on a number that follows from several .* a plan updates each para",
        ),
        (draws_by_a_rate, r": the step of Own draws random numbers \(normal_\)"),
        (
            keeps_a_product,
            "whole of a, and keeps a number in its state 'product' that follows from",
        ),
        (roots_of_sums, "keeps in 'norm' of its parameter groups a number that follows"),
        (keeps_a_norm, ": the step of Own keeps in its state 'norm' a Python number that follows"),
        (begins_late, ": the step of Own begins to count in its state 'step' at another number"),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_a_step_without_a_rule_is_refused(update: Callable[..., None], message: str) -> None:
    params = [nn.Parameter(torch.ones(6)), nn.Parameter(torch.ones(6))]
    with pytest.raises(ExportError, match=message) as caught:
        optimizer = Own(params, update)
        capture_rules(optimizer, [["a", "b"]], constant_rates(optimizer))
    line = re.match(r"(?:test_rule_refusals|captured_rule).py:(\d+): ", str(caught.value))
    # What is of no one line is of the step.
    of_line, of_step = update.__code__.co_firstlineno, inspect.unwrap(Own.step).__code__
    assert line
    assert 0 < int(line[1]) - of_line <= 4 or int(line[1]) == of_step.co_firstlineno + 1


@pytest.mark.parametrize(
    "kind, message",
    [
        (
            torch.optim.LBFGS,
            r"^the step of LBFGS takes closure, and no Python runs while a plan does",
        ),
        (torch.optim.SparseAdam, r"sparse_adam.py:\d+: .* does not support dense gradients"),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_other_optimizers_are_refused(kind: type, message: str) -> None:
    optimizer = kind([nn.Parameter(torch.ones(6, 4))])
    with pytest.raises(ExportError, match=message):
        capture_rules(optimizer, [["w"]], constant_rates(optimizer))


def test_a_number_of_every_step_and_a_scaler_are_refused() -> None:
    model = nn.Linear(3, 2)
    step = TrainingStep(
        model,
        lambda model, x: model(x).mean(),
        NAdam(model.parameters()),
        inputs={"x": torch.randn(4, 3)},
        steps=1,
        scaler=torch.amp.GradScaler("cpu"),
    )
    with pytest.raises(ExportError, match=r"nadam.py:\d+: the step of NAdam keeps a number in its"):
        read_optimizer(step, StateNames(step), None)


def test_a_group_without_a_rate_is_refused() -> None:
    optimizer = Own([nn.Parameter(torch.ones(6))], takes_the_first_rate)
    optimizer.param_groups[0]["lr"] = None
    with pytest.raises(ExportError, match="parameter group 0 .* has no learning rate, and each"):
        constant_rates(optimizer)


def clips_all(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    every = [p for group in optimizer.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(every, 1.0)
    p.sub_(p.grad)


def takes_the_first_rate(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.sub_(p.grad, alpha=optimizer.param_groups[0]["lr"])


def takes_the_first_option(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.sub_(p.grad, alpha=optimizer.param_groups[0]["scale"])


@pytest.mark.parametrize(
    "update, message",
    [
        (
            clips_all,
            "reads the gradient of b where it updates a; .* clip_grad_norm of TrainingStep",
        ),
        (takes_the_first_rate, "reads lr of another parameter group where it updates b"),
        (takes_the_first_option, "updates b otherwise where the optimizer has no other group"),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_a_step_that_reads_another_group_is_refused(
    update: Callable[..., None], message: str
) -> None:
    groups = [{"params": [nn.Parameter(torch.ones(6))], "scale": x} for x in (0.5, 0.25)]
    optimizer = Own(groups, update)
    with pytest.raises(ExportError, match=message):
        capture_rules(optimizer, [["a"], ["b"]], constant_rates(optimizer))

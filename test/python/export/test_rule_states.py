"""Tests that states and numbers which an optimizer keeps between its steps are its rule's too."""

from __future__ import annotations

import math
from typing import Any, Callable

import pytest
import torch
from captured_rule import Own, assert_has_bits, keeps_one_element, shaped
from torch import nn


def two_numbers(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    """As Fibonacci's, and of a first step of its own."""
    a, b = state.get("a", 0.0), state.get("b", 0.125)
    state["a"], state["b"] = b, a + b if b < 2.0 else 0.25
    p.sub_(p.grad, alpha=group["lr"] * state["a"])


def looks_ahead(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    """Goes half the way back in every third step, and more slowly in later rounds."""
    slow = state.setdefault("slow", torch.zeros_like(p))
    state["step"] = state.get("step", 0) + 1
    p.sub_(p.grad, alpha=group["lr"] / (1 + state["step"] // 3))
    if state["step"] % 3 == 0:
        slow.lerp_(p, 0.5)
        p.copy_(slow)


def numbers_of_its_group(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    """As optimizers free of schedules keep them; and a first step of its own."""
    if "seen" not in group:
        group["seen"] = 1
    else:
        p.mul_(0.5)
    largest = group["largest"] = max(group["lr"], group.get("largest", -1.0))
    total = group["total"] = group.get("total", 0.0) + (largest - 0.1) ** 2
    try:
        p.sub_(p.grad, alpha=largest / total)
    except ZeroDivisionError:
        p.sub_(p.grad)


def numbers_as_tensors(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    """Weights as QHAdam has them, in one element; and what no number of Python's is to the bit."""
    weight = state.setdefault("weight", torch.zeros(1))
    state["step"] = state.get("step", 0) + 1
    weight.mul_(0.9).add_(1.0)
    step = torch.tensor(state["step"], dtype=torch.float32)
    p.lerp_(p.grad, weight=weight.reciprocal().reshape(()))
    p.mul_(torch.rsqrt(step + 1.5)).sub_(p.grad * torch.exp(-0.3 * step).clamp_(min=0.1))


def types_of_types(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    wide = torch.promote_types(p.dtype, torch.float64)
    p.sub_((p.grad.to(wide) * 0.3).to(p.dtype), alpha=group["lr"])


def numbers_of_math(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    state["step"] = state.get("step", 0) + 1
    decayed = math.exp(-0.1 * state["step"]) + math.log(state["step"] + 1, 2)
    p.sub_(p.grad, alpha=group["lr"] * decayed * math.cos(math.pi * state["step"] / 7))


def sums_of_its_tensors(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    state["sum"] = state.get("sum", torch.zeros(())) + p.grad.sum()
    p.sub_(p.grad, alpha=state["sum"].item() + p.sum().item())


@pytest.mark.parametrize(
    "update",
    [
        *(two_numbers, looks_ahead, numbers_of_its_group),
        *(numbers_as_tensors, numbers_of_math, sums_of_its_tensors, types_of_types),
    ],
)
def test_numbers_that_follow_from_earlier_steps(update: Callable[..., None]) -> None:
    assert_has_bits(Own([nn.Parameter(torch.ones(6))], update), 12, {5: 3})


def states_of_any_names(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    """Of which some are no names in TorchScript."""
    for name in ("μ", "None", "β 1", "2", "s0"):
        state.setdefault(name, torch.zeros_like(p)).lerp_(p.grad, 0.5)
        p.sub_(state[name], alpha=group["lr"])


def test_a_state_may_have_any_name() -> None:
    assert_has_bits(Own([nn.Parameter(torch.ones(6))], states_of_any_names), 3)


def begins_as_zero(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    """As transformers' Adafactor keeps its RMS."""
    if not state:
        state["rms"] = 0
    state["rms"] = p.norm(2) / p.numel() ** 0.5
    p.sub_(p.grad * state["rms"].clamp(min=1e-3))


def decays_a_norm(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    state["norm"] = state.get("norm", 0.25) * 0.9 + p.grad.norm()
    p.sub_(p.grad / state["norm"])


def begins_with_a_step_without(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    if not state:
        state["norm"] = 0.5
        return
    state["norm"] = p.grad.norm()
    p.sub_(p.grad / state["norm"])


def keeps_the_largest(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    if not state:
        state["norm"] = torch.tensor(1.0)
    state["norm"].copy_(torch.maximum(state["norm"], p.grad.norm()))
    p.sub_(p.grad / state["norm"])


def has_a_number_for_none(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    if not state:
        state["norm"] = p.norm()
        if state["norm"] == 0:
            state["norm"] = 0.01
    p.sub_(p.grad * state["norm"])


@pytest.mark.parametrize("shape", [(6, 4), (8,), (1,)])
@pytest.mark.parametrize(
    "update",
    [
        *(begins_as_zero, decays_a_norm, begins_with_a_step_without),
        *(keeps_the_largest, keeps_one_element, has_a_number_for_none),
    ],
)
def test_a_state_may_be_a_tensor_without_dimensions(
    update: Callable[..., None], shape: tuple[int, ...]
) -> None:
    """It is held as one of one element, as such a parameter is."""
    torch.manual_seed(1)
    reference = nn.Parameter(torch.randn(shape))
    rule = assert_has_bits(Own([reference], update), 5)
    (state,) = rule.description["states"]
    assert shaped(state, reference) == [1]


def averages_rows(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    if not state:
        state["rows"] = torch.zeros(p.shape[:1])
    state["rows"].mul_(0.5).add_(p.grad.pow(2).reshape(len(p), -1).mean(1))
    p.sub_((p.grad.reshape(len(p), -1) / state["rows"].add(1).unsqueeze(1)).view_as(p))


def test_a_state_may_have_another_parameters_shape() -> None:
    """Rows of a weight have as many elements as its bias."""
    torch.manual_seed(1)
    weight, bias = nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(6))
    rule = assert_has_bits(Own([weight, bias], averages_rows), 5)
    assert "aten::full_like" not in [node["op"] for node in rule.description["nodes"]]


def counts_before(group: dict) -> Any:
    group["step"] = group.get("step", 0) + 1
    return group["step"]


def counts_behind(group: dict) -> Any:
    """As optimizers free of schedules do, from an option of the constructor."""
    group["k"] += 1
    return group["k"] - 1


def counts_on_a_tensor(group: dict) -> Any:
    """As timm's Lamb does."""
    if "step" not in group:
        group["step"] = torch.tensor(0.0)
    group["step"].add_(1)
    return group["step"].item()


class CountsInGroup(torch.optim.Optimizer):
    def __init__(self, params: Any, count: Callable[[dict], Any]) -> None:
        super().__init__(params, {"lr": 0.1, "k": 0})
        self.count = count

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            correction = 1 - 0.9 ** self.count(group)
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["average"] = torch.zeros_like(p)
                state["average"].mul_(0.9).add_(p.grad, alpha=0.1)
                p.sub_(state["average"] / (correction + 0.5), alpha=group["lr"])


@pytest.mark.parametrize("count", [counts_before, counts_behind, counts_on_a_tensor])
def test_a_group_may_count_steps(count: Callable[[dict], Any]) -> None:
    torch.manual_seed(1)
    params = [nn.Parameter(torch.randn(6)), nn.Parameter(torch.randn(3))]
    assert_has_bits(CountsInGroup(params, count), 7)

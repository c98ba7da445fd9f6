"""Tests that the rule captured from an optimizer has its bits, step after step."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from captured_rule import Capture, Own, assert_has_bits, bits, clips, keeps_one_element, shaped
from torch import nn
from torch.optim import (
    ASGD,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    NAdam,
    RAdam,
    RMSprop,
    Rprop,
)
from torch.utils._python_dispatch import TorchDispatchMode

from fsdp_mlir.rules.capture import capture_rules
from fsdp_mlir.rules.schedule import constant_rates
from fsdp_mlir.rules.step_numbers import numbers_after

CASES: list[tuple[type, dict[str, Any]]] = [
    (SGD, {}),
    (SGD, {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    (SGD, {"momentum": 0.9, "nesterov": True, "maximize": True, "fused": True}),
    (Adam, {"weight_decay": 0.1, "amsgrad": True}),
    (Adam, {"lr": 0.3, "betas": (0.8, 0.95), "eps": 1e-5}),
    (Adam, {"maximize": True, "foreach": True}),
    (AdamW, {"weight_decay": 0.1}),
    (AdamW, {"fused": True, "amsgrad": True}),
    (Adagrad, {"lr_decay": 0.01, "initial_accumulator_value": 0.5, "weight_decay": 0.1}),
    (Adagrad, {"fused": True}),
    (Adadelta, {"weight_decay": 0.1}),
    (Adamax, {"weight_decay": 0.1, "maximize": True}),
    (RMSprop, {}),
    (RMSprop, {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    (Rprop, {}),
    (RAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    (NAdam, {"weight_decay": 0.1, "momentum_decay": 0.3}),
    (NAdam, {"decoupled_weight_decay": True, "maximize": True}),
    (ASGD, {"weight_decay": 0.1, "lambd": 0.1}),
    (ASGD, {"t0": 4.0, "alpha": 0.5}),
    (Adafactor, {"weight_decay": 0.1}),
]


def with_zeros(parameter: torch.Tensor) -> torch.Tensor:
    """A gradient with both of them."""
    gradient = torch.randn_like(parameter)
    gradient[:2] = torch.tensor([0.0, -0.0])
    return gradient


@pytest.mark.parametrize("kind, options", CASES, ids=lambda v: getattr(v, "__name__", None))
def test_a_rule_has_the_optimizers_bits(kind: type, options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    # Of a fused kernel, elements that fill whole vectors.
    reference = nn.Parameter(torch.randn(48))
    optimizer = kind([reference], **{"lr": 0.1, **options})
    rates = [optimizer.param_groups[0]["lr"]] * 4
    rule = assert_has_bits(optimizer, 12, {5: 1 / 3}, with_zeros)
    rates += [optimizer.param_groups[0]["lr"]] * 8
    # What checkpoints for PyTorch have beside these.
    kept = numbers_after(rule.description["numbers"], 12, lambda step, _: rates[step - 1])
    state = optimizer.state[reference]
    for name, value in kept.items():
        assert state[name].item() == value
    assert {name for name, value in state.items() if value.numel() == 1} <= {"step", *kept}


ELEMENTWISE = [(kind, x) for kind, x in CASES if kind is not Adafactor and "fused" not in x]


@pytest.mark.parametrize("kind, options", ELEMENTWISE, ids=lambda v: getattr(v, "__name__", None))
def test_a_parameter_may_have_no_dimension(kind: type, options: dict[str, Any]) -> None:
    """Also where the optimizer makes states as soon as it has the parameter, as Adagrad does."""
    assert_has_bits(kind([nn.Parameter(torch.tensor(0.5))], **{"lr": 0.1, **options}), 4)


class Lamb(torch.optim.Optimizer):
    """As papers write it: the step of a tensor is as long as its norm says, and Python branches on
    what the norms are."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": 0.01})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                    state["ratio"] = torch.zeros(2, 1)
                state["exp_avg"].lerp_(p.grad, 0.1)
                update = (
                    state["exp_avg"].view(2, -1).mul(1.5).view_as(p) + p * group["weight_decay"]
                )
                of_weight, of_update = p.norm(), update.norm().item()
                if of_weight > 0 and of_update > 0:
                    ratio = of_weight.item() / of_update
                else:
                    ratio = 1.0
                state["ratio"].mul_(0.5).add_(ratio)
                p.add_(update, alpha=-group["lr"] * ratio)


@pytest.mark.parametrize("shape", [(6, 4), (2, 3, 2, 4), (1, 8), (8,)], ids=str)
@pytest.mark.parametrize("kind", [Adafactor, Lamb], ids=lambda kind: kind.__name__)
def test_a_rule_of_whole_tensors_has_the_optimizers_bits(
    kind: type, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(1)
    reference = nn.Parameter(torch.zeros(shape))  # whose norm is 0 in the first step
    assert_has_bits(kind([reference], lr=0.1), 8)


def test_parameters_branch_by_themselves() -> None:
    """Ten parameters that branch twice each are followed in four ways, not in 2^20."""
    params = [nn.Parameter(torch.ones(6, 4)) for _ in range(10)]
    names = [f"w{i}" for i in range(10)]
    optimizer = Lamb(params, 0.1)
    (rule,) = capture_rules(optimizer, [names], constant_rates(optimizer))
    assert rule.parameters == names


def muon(params: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Muon(params, lr=0.1, weight_decay=0.1)


def normalises(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.sub_(p.grad / p.grad.norm())


def normalises_lists(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    norms = torch._foreach_norm([p.grad])
    torch._foreach_add_(norms, 1e-6)
    scaled = torch._foreach_div([p.grad], norms)
    torch._foreach_mul_(scaled, [0.5])
    torch._foreach_addcdiv_([p], scaled, [p.grad.abs() + 1], value=-1.0)


def decomposes(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    """As Shampoo and SOAP do: matrices in lists, of which every second step makes a basis anew. What
    QR gives lies by columns."""
    state["step"] = state.get("step", 0) + 1
    if "sides" not in state:
        state["decay"], state["bases"] = 0.5, [torch.eye(n) for n in p.shape]
        state["sides"] = {n: 0.1 * torch.eye(size) for n, size in enumerate(p.shape)}
    grad = p.grad.clone()
    for n, side in state["sides"].items():
        side.lerp_(grad @ grad.mT, 1 - state["decay"])
        if state["step"] % 2 == 1:
            values, basis = torch.linalg.eigh(side)
            side.mul_(values.sign().mean())
            state["bases"][n] = torch.linalg.qr(side @ basis)[0]
        grad = (state["bases"][n] @ grad).transpose_(0, 1)
    u, _, v = torch.linalg.svd(grad, full_matrices=False)
    p.sub_(u @ v + grad.sort()[0], alpha=0.1)


UPDATES = (normalises, normalises_lists, clips, decomposes)


@pytest.mark.parametrize("make", [muon, *(lambda params, x=x: Own(params, x) for x in UPDATES)])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_a_rule_may_look_at_whole_tensors(make: Callable[..., Any], shape: Any) -> None:
    torch.manual_seed(1)
    rule = assert_has_bits(make([nn.Parameter(torch.randn(shape))]), 5)
    assert rule.description["values"]["param"]["shape"] == list(shape)


def makes_contiguous(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    x = (p.grad.mT / p.grad.norm()).contiguous()
    p.sub_((x @ x.mT @ x).mT)


def copies_transposed(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    x = torch.empty(p.shape[1], p.shape[0])
    x.copy_(p.grad.mT / 3)
    p.sub_((x @ x.mT @ x).mT)


def fills_transposed(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    x = torch.zeros_like(p.mT)
    x.add_(p.grad.mT)
    p.sub_((x @ x.mT @ x).mT)


def transposes_in_place(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    x = p.grad.clone().transpose_(0, 1)
    p.sub_((x @ x.mT @ x).mT)


class Strides(TorchDispatchMode):
    """Those of each result."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.seen.append(list(result.stride()))
        return result


@pytest.mark.parametrize("shape", [(6, 4), (5, 5)])
@pytest.mark.parametrize(
    "update",
    [
        *(makes_contiguous, copies_transposed, fills_transposed),
        *(transposes_in_place, keeps_one_element),
    ],
)
def test_what_is_computed_lies_as_the_rule_says(update: Callable[..., None], shape: Any) -> None:
    torch.manual_seed(1)
    reference = nn.Parameter(torch.randn(shape))
    optimizer = Own([reference], update)
    rule = Capture(optimizer)
    before = reference.detach().clone()
    reference.grad = torch.randn(shape)
    optimizer.step()
    states = [torch.zeros(shaped(s, reference)) for s in rule.description["states"]]
    with Strides() as strides:
        value, *_ = rule([before, reference.grad, *states], 0.1, 1)
    assert torch.equal(bits(value), bits(reference))
    results = [node["results"][0] for node in rule.description["nodes"]]
    values = rule.description["values"]
    assert strides.seen == [values[name].get("strides", [shape[1], 1]) for name in results]

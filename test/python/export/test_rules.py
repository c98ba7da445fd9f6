"""Tests that the rule captured from an optimizer has its bits, step after step; and that a step of
which no rule can be made is refused with the line that is why.

A rule is run as the archive holds it, as TorchScript with its numbers in Python: nothing of the
compiler or the runtime is in between.
"""

from __future__ import annotations

import inspect
import io
import math
import re
from typing import Any, Callable

import pytest
import torch
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

from fsdp_mlir import ExportError, TrainingStep
from fsdp_mlir.archive.container import build_archive
from fsdp_mlir.step.names import StateNames
from fsdp_mlir.rules.optimizer import describe_optimizer
from fsdp_mlir.rules.capture import capture_rules
from fsdp_mlir.rules.writer import RuleWriter
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


class Capture:
    """The rule of an optimizer's first parameter."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        names = [f"w{i}" for i in range(len(optimizer.param_groups[0]["params"]))]
        rule = capture_rules(optimizer, [names], constant_rates(optimizer))[0]
        writer = RuleWriter(rule, "rule.0", "rule_0")
        self.description = writer.description
        metadata = {"programs": {}, "optimizer": {"rules": [self.description]}}
        archive = build_archive({"rule_0": writer.source}, metadata)
        self.method = torch.jit.load(io.BytesIO(archive)).rule_0
        self.former: dict[str, float] = {}

    def __call__(self, tensors: list[torch.Tensor], rate: float, step: int) -> list[torch.Tensor]:
        """The new parameter and states, from parameter, gradient and states."""
        numbers = self.numbers(rate, step)
        taken = [a["name"] for a in self.description["arguments"] if a["role"] == "number"]
        return list(self.method(*tensors, *map(numbers.__getitem__, taken)))

    def numbers(self, rate: float, step: int) -> dict[str, float]:
        values: dict[str, float] = {}
        compute: dict[str, Callable[..., float]] = {
            "hyperparameter": lambda: rate,
            "step_count": lambda: float(step),
            "add": lambda a, b: a + b,
            "subtract": lambda a, b: a - b,
            "multiply": lambda a, b: a * b,
            "divide": lambda a, b: a / b if b else math.nan,
            "power": lambda a, b: math.nan if a < 0 else a**b,
            "negate": lambda a: -a,
            "sqrt": math.sqrt,
            "exp": math.exp,
            "log": math.log,
            "cos": math.cos,
            "round": lambda a: torch.tensor(a, dtype=torch.float64).float().item(),
            "select_equal": lambda a, b, c, d: c if a == b else d,
            "select_less": lambda a, b, c, d: c if a < b else d,
            "select_less_equal": lambda a, b, c, d: c if a <= b else d,
        }
        for number in self.description["numbers"]:
            operands = [values.get(x, x) for x in number.get("operands", [])]
            if number["op"] == "former":
                values[number["name"]] = self.former.get(number["name"], operands[0])
            else:
                values[number["name"]] = compute[number["op"]](*operands)
        formers = [n for n in self.description["numbers"] if n["op"] == "former"]
        self.former = {n["name"]: values[n["next"]] for n in formers}
        return values


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().view(torch.int32)


@pytest.mark.parametrize("kind, options", CASES, ids=lambda v: getattr(v, "__name__", None))
def test_a_rule_has_the_optimizers_bits(kind: type, options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    # Of a fused kernel, elements that fill whole vectors.
    reference = nn.Parameter(torch.randn(48))
    optimizer = kind([reference], **{"lr": 0.1, **options})
    rule = Capture(optimizer)
    states = rule.description["states"]
    rates: list[float] = []
    tensors = [reference.detach().clone()]
    tensors += [torch.full((48,), state["initial"]) for state in states]
    for step in range(1, 13):
        if step == 5:
            optimizer.param_groups[0]["lr"] /= 3
        gradient = torch.randn(48)
        gradient[:2] = torch.tensor([0.0, -0.0])
        reference.grad = gradient.clone()
        optimizer.step()
        rate = optimizer.param_groups[0]["lr"]
        rates.append(rate)
        tensors = rule([tensors[0], gradient, *tensors[1:]], rate, step)
        assert torch.equal(bits(tensors[0]), bits(reference)), step
        for state, value in zip(states, tensors[1:], strict=True):
            wanted = optimizer.state[reference][state["name"]]
            assert torch.equal(bits(value), bits(wanted)), (step, state["name"])
    # What checkpoints for PyTorch have beside these.
    numbers = rule.description["numbers"]
    for name, value in numbers_after(numbers, 12, lambda step, _: rates[step - 1]).items():
        assert optimizer.state[reference][name].item() == value
    kept = {name for name, value in optimizer.state[reference].items() if value.numel() == 1}
    assert kept <= {"step", *numbers_after(numbers, 12, lambda step, _: rates[step - 1])}


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


def shaped(state: dict[str, Any], like: torch.Tensor) -> list[int]:
    return list(like.shape) if state["shape"] is None else state["shape"]


@pytest.mark.parametrize("shape", [(6, 4), (2, 3, 2, 4), (1, 8), (8,)], ids=str)
@pytest.mark.parametrize("kind", [Adafactor, Lamb], ids=lambda kind: kind.__name__)
def test_a_rule_of_whole_tensors_has_the_optimizers_bits(
    kind: type, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(1)
    reference = nn.Parameter(torch.zeros(shape))  # whose norm is 0 in the first step
    optimizer = kind([reference], lr=0.1)
    rule = Capture(optimizer)
    states = rule.description["states"]
    tensors = [reference.detach().clone()]
    tensors += [torch.full(shaped(state, reference), state["initial"]) for state in states]
    for step in range(1, 9):
        gradient = torch.randn(shape)
        reference.grad = gradient.clone()
        optimizer.step()
        tensors = rule([tensors[0], gradient, *tensors[1:]], 0.1, step)
        assert torch.equal(bits(tensors[0]), bits(reference)), step
        for state, value in zip(states, tensors[1:], strict=True):
            wanted = optimizer.state[reference][state["name"]]
            assert torch.equal(bits(value), bits(wanted)), (step, state["name"])


def test_parameters_branch_by_themselves() -> None:
    """Ten parameters that branch twice each are followed in four ways, not in 2^20."""
    params = [nn.Parameter(torch.ones(6, 4)) for _ in range(10)]
    names = [f"w{i}" for i in range(10)]
    optimizer = Lamb(params, 0.1)
    (rule,) = capture_rules(optimizer, [names], constant_rates(optimizer))
    assert rule.parameters == names


class Own(torch.optim.Optimizer):
    """Runs `update` on each parameter with its state and its group."""

    def __init__(self, params: Any, update: Callable[..., None]) -> None:
        super().__init__(params, {"lr": 0.1})
        self.update, self.count = update, 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                self.update(self, p, self.state[p], group)


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


def normalises(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.sub_(p.grad / p.grad.norm())


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


def clips(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
    p.sub_(p.grad)


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
    line = re.match(r"test_rules.py:(\d+): ", str(caught.value))
    # What is of no one line is of the step.
    of_line, of_step = update.__code__.co_firstlineno, inspect.unwrap(Own.step).__code__
    assert line
    assert 0 < int(line[1]) - of_line <= 4 or int(line[1]) == of_step.co_firstlineno + 1


@pytest.mark.parametrize(
    "kind, message",
    [
        (
            torch.optim.LBFGS,
            r"lbfgs.py:\d+: the step of LBFGS takes closure, and no Python runs while a plan does",
        ),
        (torch.optim.SparseAdam, r"sparse_adam.py:\d+: .* does not support dense gradients"),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_other_optimizers_are_refused(kind: type, message: str) -> None:
    optimizer = kind([nn.Parameter(torch.ones(6, 4))])
    with pytest.raises(ExportError, match=message):
        capture_rules(optimizer, [["w"]], constant_rates(optimizer))


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
        *(numbers_as_tensors, numbers_of_math, sums_of_its_tensors),
    ],
)
def test_numbers_that_follow_from_earlier_steps(update: Callable[..., None]) -> None:
    reference = nn.Parameter(torch.ones(6))
    optimizer = Own([reference], update)
    rule = Capture(optimizer)
    tensors = [reference.detach().clone()]
    tensors += [torch.zeros(shaped(s, reference)) for s in rule.description["states"]]
    for step in range(1, 13):
        if step == 5:
            optimizer.param_groups[0]["lr"] *= 3
        rate = optimizer.param_groups[0]["lr"]
        reference.grad = torch.randn(6)
        optimizer.step()
        tensors = rule([tensors[0], reference.grad, *tensors[1:]], rate, step)
        assert torch.equal(bits(tensors[0]), bits(reference)), step


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
        describe_optimizer(step, StateNames(step), None)


def muon(params: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Muon(params, lr=0.1, weight_decay=0.1)


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
    reference = nn.Parameter(torch.randn(shape))
    optimizer = make([reference])
    rule = Capture(optimizer)
    assert rule.description["values"]["param"]["shape"] == list(shape)
    tensors = [reference.detach().clone()]
    tensors += [torch.zeros(shaped(s, reference)) for s in rule.description["states"]]
    for step in range(1, 6):
        gradient = torch.randn(shape)
        reference.grad = gradient.clone()
        optimizer.step()
        tensors = rule([tensors[0], gradient, *tensors[1:]], 0.1, step)
        assert torch.equal(bits(tensors[0]), bits(reference)), step


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


def keeps_one_element(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    if not state:
        state["norm"] = torch.zeros(1)
    state["norm"].mul_(0.5).add_(p.grad.norm(), alpha=0.5)
    p.sub_(p.grad / state["norm"])


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
    optimizer = Own([reference], update)
    rule = Capture(optimizer)
    (state,) = rule.description["states"]
    assert shaped(state, reference) == [1]
    tensors = [reference.detach().clone(), torch.full((1,), state["initial"])]
    for step in range(1, 6):
        reference.grad = torch.randn(shape)
        optimizer.step()
        tensors = rule([tensors[0], reference.grad, tensors[1]], 0.1, step)
        assert torch.equal(bits(tensors[0]), bits(reference)), step
        assert tensors[1].item() == float(optimizer.state[reference][state["name"]])


def test_a_group_without_a_rate_is_refused() -> None:
    optimizer = Own([nn.Parameter(torch.ones(6))], begins_as_zero)
    optimizer.param_groups[0]["lr"] = None
    with pytest.raises(ExportError, match="parameter group 0 .* has no learning rate, and each"):
        constant_rates(optimizer)


def averages_rows(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    if not state:
        state["rows"] = torch.zeros(p.shape[:1])
    state["rows"].mul_(0.5).add_(p.grad.pow(2).reshape(len(p), -1).mean(1))
    p.sub_((p.grad.reshape(len(p), -1) / state["rows"].add(1).unsqueeze(1)).view_as(p))


def test_a_state_may_have_another_parameters_shape() -> None:
    """Rows of a weight have as many elements as its bias."""
    torch.manual_seed(1)
    reference, bias = nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(6))
    optimizer = Own([reference, bias], averages_rows)
    rule = Capture(optimizer)
    assert "aten::full_like" not in [node["op"] for node in rule.description["nodes"]]
    tensors = [reference.detach().clone(), torch.zeros(6)]
    for step in range(1, 6):
        reference.grad, bias.grad = torch.randn(6, 4), torch.randn(6)
        optimizer.step()
        tensors = rule([tensors[0], reference.grad, tensors[1]], 0.1, step)
        assert torch.equal(bits(tensors[0]), bits(reference)), step


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
    reference, other = nn.Parameter(torch.randn(6)), nn.Parameter(torch.randn(3))
    optimizer = CountsInGroup([reference, other], count)
    rule = Capture(optimizer)
    tensors = [reference.detach().clone(), torch.zeros(6)]
    for step in range(1, 8):
        reference.grad, other.grad = torch.randn(6), torch.randn(3)
        optimizer.step()
        tensors = rule([tensors[0], reference.grad, tensors[1]], 0.1, step)
        assert torch.equal(bits(tensors[0]), bits(reference)), step


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

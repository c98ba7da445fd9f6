"""Tests that the rule captured from an optimizer has its bits, step after step; and that a step of
which no rule can be made is refused with the line that is why.

A rule is run as the archive holds it, as TorchScript with its numbers in Python: nothing of the
compiler or the runtime is in between.
"""

from __future__ import annotations

import io
import math
import re
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, RAdam, RMSprop, Rprop

from fsdp_mlir import ExportError
from fsdp_mlir.archive import build_archive
from fsdp_mlir.rule_capture import capture_rules
from fsdp_mlir.rule_writer import RuleWriter
from fsdp_mlir.schedule import constant_rates

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
]


class Capture:
    """The one rule of an optimizer of one parameter."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        (rule,) = capture_rules(optimizer, [["w"]], constant_rates(optimizer))
        writer = RuleWriter(rule, "rule.0", "rule_0")
        self.description = writer.description
        metadata = {"programs": {}, "optimizer": {"rules": [self.description]}}
        archive = build_archive({"rule_0": writer.source}, metadata)
        self.method = torch.jit.load(io.BytesIO(archive)).rule_0

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
            "select_equal": lambda a, b, c, d: c if a == b else d,
            "select_less": lambda a, b, c, d: c if a < b else d,
            "select_less_equal": lambda a, b, c, d: c if a <= b else d,
        }
        for number in self.description["numbers"]:
            operands = [values.get(x, x) for x in number.get("operands", [])]
            values[number["name"]] = compute[number["op"]](*operands)
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
        tensors = rule([tensors[0], gradient, *tensors[1:]], rate, step)
        assert torch.equal(bits(tensors[0]), bits(reference)), step
        for state, value in zip(states, tensors[1:], strict=True):
            wanted = optimizer.state[reference][state["name"]]
            assert torch.equal(bits(value), bits(wanted)), (step, state["name"])


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


def every_second(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    state["step"] = state.get("step", 0) + 1
    if state["step"] % 2 == 0:
        p.sub_(p.grad)


def normalises(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.sub_(p.grad / p.grad.norm())


def branches(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    if p.grad[0] > 0:
        p.sub_(p.grad)


def draws(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.add_(torch.randn_like(p))


def reads_another(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    p.add_(optimizer.param_groups[0]["params"][1])


def sums(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    state["sum"] = state.get("sum", 0.5) * 0.9
    p.sub_(p.grad, alpha=state["sum"])


@pytest.mark.parametrize(
    "update, message",
    [
        (counts, r": the step of Own reads Python state that changes between steps; keep it"),
        (has_list, r": the step of Own reads Python state that changes between steps"),
        (decays, r"the step of Own changes Python state \(lr of its parameter groups\), so that"),
        (has_value, ": the step of Own needs the value of a number that changes between steps"),
        (every_second, ": the step of Own computes mod of a number that changes between steps"),
        (normalises, ": the step of Own calls aten::linalg_vector_norm, which looks at more than"),
        (branches, r": the step of Own looks at a tensor of shape \[6\] as \[\]"),
        (draws, r": the step of Own draws random numbers \(aten.randn_like"),
        (reads_another, "the step of Own reads b where it updates a; each parameter is updated by"),
        (sums, "the step of Own keeps one number in its state 'sum' that does not count its steps"),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_a_step_without_a_rule_is_refused(update: Callable[..., None], message: str) -> None:
    params = [nn.Parameter(torch.ones(6)), nn.Parameter(torch.ones(6))]
    with pytest.raises(ExportError, match=message) as caught:
        optimizer = Own(params, update)
        capture_rules(optimizer, [["a", "b"]], constant_rates(optimizer))
    if message.startswith((r":", r": ")):
        first = update.__code__.co_firstlineno
        line = re.match(r"test_rules.py:(\d+): ", str(caught.value))
        assert line and first < int(line[1]) <= first + 4


@pytest.mark.parametrize(
    "kind, message",
    [
        (
            torch.optim.LBFGS,
            "the step of LBFGS takes closure, and no Python runs while a plan does",
        ),
        (torch.optim.Adafactor, r"_adafactor.py:\d+: .* looks at more than one element"),
        (torch.optim.Muon, r"_muon.py:\d+: .* only steps that treat each element alike"),
        (torch.optim.SparseAdam, r"sparse_adam.py:\d+: .* does not support dense gradients"),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_optimizers_of_whole_tensors_are_refused(kind: type, message: str) -> None:
    optimizer = kind([nn.Parameter(torch.ones(6, 4))])
    with pytest.raises(ExportError, match=message):
        capture_rules(optimizer, [["w"]], constant_rates(optimizer))

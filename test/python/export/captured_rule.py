"""The rule that is captured from an optimizer, run beside it.

A rule is run as the archive holds it, as TorchScript with its numbers in Python: nothing of the
compiler or the runtime is in between.
"""

from __future__ import annotations

import io
import math
from typing import Any, Callable, Mapping

import torch

from fsdp_mlir.archive.container import build_archive
from fsdp_mlir.rules.capture import capture_rules
from fsdp_mlir.rules.schedule import constant_rates
from fsdp_mlir.rules.writer import RuleWriter


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


def clips(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
    p.sub_(p.grad)


def keeps_one_element(optimizer: Own, p: torch.Tensor, state: dict, group: dict) -> None:
    if not state:
        state["norm"] = torch.zeros(1)
    state["norm"].mul_(0.5).add_(p.grad.norm(), alpha=0.5)
    p.sub_(p.grad / state["norm"])


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().view(torch.int32)


def shaped(state: dict[str, Any], like: torch.Tensor) -> list[int]:
    return list(like.shape) if state["shape"] is None else state["shape"]


def assert_has_bits(
    optimizer: torch.optim.Optimizer,
    steps: int,
    rates: Mapping[int, float] = {},
    gradient: Callable[[torch.Tensor], torch.Tensor] = torch.randn_like,
) -> Capture:
    """Takes steps of the optimizer, and of its first parameter's rule: parameter and states have the
    same bits after each. Gives the rule.

    `rates` has factors of the learning rate, by the step from which on they hold.
    """
    group = optimizer.param_groups[0]
    reference = group["params"][0]
    rule = Capture(optimizer)
    states = rule.description["states"]
    tensors = [reference.detach().clone()]
    tensors += [torch.full(shaped(state, reference), state["initial"]) for state in states]
    for step in range(1, steps + 1):
        group["lr"] *= rates.get(step, 1)
        for parameter in group["params"]:
            parameter.grad = gradient(parameter.detach())
        given = reference.grad.clone()
        optimizer.step()
        tensors = rule([tensors[0], given, *tensors[1:]], group["lr"], step)
        assert torch.equal(bits(tensors[0]), bits(reference)), step
        for state, value in zip(states, tensors[1:], strict=True):
            wanted = optimizer.state[reference].get(state["name"])
            if wanted is not None:
                wanted = torch.as_tensor(wanted).reshape(value.shape)
                assert torch.equal(bits(value), bits(wanted)), (step, state["name"])
    return rule

"""Tests that an optimizer which reaches parameters or keeps tensors where a rule cannot follow is
refused, and trains nothing in silence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Optimizer

from fsdp_mlir import ExportError
from fsdp_mlir.rules.alike import Followed
from fsdp_mlir.rules.capture import capture_rules
from fsdp_mlir.rules.schedule import constant_rates


class Base(Optimizer):
    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1})

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    self.update(param, group["lr"])

    def update(self, param: torch.Tensor, rate: float) -> None:
        param.sub_(param.grad, alpha=rate)


class Wraps(Base):
    """As Lookahead, SAM, and what accelerate and Fabric make of an optimizer."""

    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.inner = SGD(self.param_groups, lr=0.1)

    def step(self, closure: Any = None) -> None:
        self.inner.step()


class KeepsParameters(Base):
    def __init__(self, params: Any) -> None:
        self.mine = list(params)
        super().__init__(self.mine)

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for param in self.mine:
                if param.grad is not None:
                    param.sub_(param.grad)


class KeepsMomentum(Base):
    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.momentum: dict[torch.Tensor, torch.Tensor] = {}

    def update(self, param: torch.Tensor, rate: float) -> None:
        held = self.momentum.setdefault(param, torch.zeros_like(param))
        param.sub_(held.mul_(0.9).add_(param.grad), alpha=rate)


class KeepsMomentumOnParameters(Base):
    def update(self, param: torch.Tensor, rate: float) -> None:
        param.held = torch.zeros_like(param)
        super().update(param, rate)


@pytest.mark.parametrize(
    "kind, message",
    [
        (Wraps, "gives a no update from its param_groups, and self.inner holds it: a step of one"),
        (KeepsParameters, "self.mine holds it: let the step go through self.param_groups"),
        (KeepsMomentum, "keeps tensors in self.momentum; keep them in self.state, per parameter"),
        (KeepsMomentumOnParameters, "keeps held on the parameters; keep it in self.state"),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_what_lies_outside_of_groups_and_state_is_refused(kind: type, message: str) -> None:
    optimizer = kind([nn.Parameter(torch.ones(6)), nn.Parameter(torch.ones(6))])
    with pytest.raises(ExportError, match=rf"^test_rule_reach.py:\d+: the step of .*{message}"):
        capture_rules(optimizer, [["a", "b"]], constant_rates(optimizer))


def test_a_parameter_that_a_step_leaves_alone_keeps_its_value() -> None:
    """Nothing else holds it: so the optimizer means it."""

    class OfMatrices(Base):
        def update(self, param: torch.Tensor, rate: float) -> None:
            if param.dim() == 2:
                super().update(param, rate)

    optimizer = OfMatrices([nn.Parameter(torch.ones(6, 6)), nn.Parameter(torch.ones(6))])
    assert len(capture_rules(optimizer, [["a", "b"]], constant_rates(optimizer))) == 2


def test_of_what_pytorchs_own_steps_treat_alike_one_is_followed() -> None:
    """Steps of other classes may know parameters by more than shape and dtype."""
    shapes = {"a": (6, 4), "b": (6,), "c": (6, 4), "d": (4, 6), "e": (6,)}
    params = [nn.Parameter(torch.ones(shape)) for shape in shapes.values()]
    optimizer = SGD(params, lr=0.1)
    assert Followed(optimizer, [list(shapes)]).groups == [["a", "b", "d"]]
    (rule,) = capture_rules(optimizer, [list(shapes)], constant_rates(optimizer))
    assert rule.parameters == list(shapes)
    assert Followed(Base(params), [list(shapes)]).groups == [list(shapes)]

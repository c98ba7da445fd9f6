"""Tests how an archive holds complex parameters, and what of them is refused."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from exporting import export
from torch import nn

from fsdp_mlir import ExportError, MixedPrecisionPolicy, TrainingStep, fully_shard, record_init


class Filter(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.complex64) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 8, dtype=dtype) * (1 + 2j))
        self.fixed = nn.Parameter(torch.ones(3, 1, dtype=dtype), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.weight * x * self.fixed).abs()


class Model(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.complex64) -> None:
        super().__init__()
        self.filter, self.layer = Filter(dtype), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.filter(self.layer(x))


def step_of(model: nn.Module, new: Any = torch.optim.AdamW, **options: Any) -> TrainingStep:
    optimizer = new([p for p in model.parameters() if p.requires_grad], lr=0.1)
    loss = lambda model, x: model(x).mean()
    return TrainingStep(model, loss, optimizer, {"x": torch.randn(3, 8)}, **options)


@pytest.mark.quick
def test_an_archive_holds_pairs(tmp_path: pathlib.Path) -> None:
    model = Model()
    exported = export(step_of(model), tmp_path)
    held = {entry["fqn"]: entry for entry in exported.metadata["parameters"]}
    weight, fixed = held["filter.weight"], held["filter.fixed"]
    assert (weight["shape"], weight["strides"], weight["dtype"]) == (
        [3, 8, 2],
        [16, 2, 1],
        "float32",
    )
    assert (fixed["shape"], fixed["dtype"]) == ([3, 1], "complex64")
    pairs = torch.view_as_real(model.filter.weight.detach())
    assert torch.equal(exported.weights["filter.weight"], pairs)
    model(step_of(model).inputs["x"])
    results = exported.run()
    model(exported.weights["fsdp.input.x"]).mean().backward()
    gradient = torch.view_as_real(model.filter.weight.grad)
    assert torch.equal(results["gradient", "filter.weight"], gradient)


def test_a_view_is_of_the_module_that_reads_it(tmp_path: pathlib.Path) -> None:
    """One in front of the whole program would gather the parameter before its unit runs."""
    nodes = export(step_of(Model()), tmp_path).program()["nodes"]
    views = [node for node in nodes if node["op"] == "aten::view_as_complex"]
    assert views and {view["module"] for view in views} == {"filter"}


def test_one_rule_updates_numbers_and_pairs(tmp_path: pathlib.Path) -> None:
    [rule] = export(step_of(Model()), tmp_path).metadata["optimizer"]["rules"]
    assert rule["parameters"] == ["filter.weight", "layer.weight", "layer.bias"]
    assert {state["dtype"] for state in rule["states"]} == {"float32"}


def test_a_model_on_meta(tmp_path: pathlib.Path) -> None:
    with record_init():
        with torch.device("meta"):
            model = Model()
            nn.init.constant_(model.filter.weight, 3)
        exported = export(step_of(model), tmp_path)
    pairs = torch.tensor([3.0, 0.0]).expand(3, 8, 2)
    assert torch.equal(exported.weights["filter.weight"], pairs)


def sharded(**policy: torch.dtype) -> nn.Module:
    model = Model()
    fully_shard(model.filter, mp_policy=MixedPrecisionPolicy(**policy))
    return fully_shard(model)


class Dividing(torch.optim.SGD):
    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.sub_(parameter.grad / 3)


class Turning(torch.optim.SGD):
    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.sub_(parameter.grad.conj())


class Making(torch.optim.SGD):
    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            numbers = torch.zeros(parameter.shape)
            parameter.sub_(torch.complex(numbers, numbers))


class Stacking(torch.optim.SGD):
    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.sub_(torch.stack([parameter.grad, parameter.grad])[0])


class Absolute(torch.optim.SGD):
    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.sub_(parameter.grad * parameter.grad.abs())


@pytest.mark.provokes("FSDP-E0212", "FSDP-E0224")
@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: step_of(Model(torch.complex128)), "filter.weight is complex128, .*complex64, or"),
        (lambda: step_of(Model(), clip_grad_value=1.0), "filter.weight is complex, .*by value"),
        (lambda: step_of(Model(), clip_grad_norm=(1.0, 1)), "norm type 1, and filter.weight is"),
        (lambda: step_of(Model(), clip_grad_norm=(1.0, "inf")), "norm type inf, and filter.weight"),
        (lambda: step_of(Model(), scaler=torch.amp.GradScaler("cpu")), "GradScaler does not unsc"),
        (lambda: step_of(sharded(param_dtype=torch.bfloat16)), "param_dtype of its unit is bfloat"),
        (lambda: step_of(sharded(reduce_dtype=torch.bfloat16)), "reduce_dtype of its unit is bflo"),
        (lambda: step_of(Model(), torch.optim.Adafactor), "does not support complex parameters"),
        (lambda: step_of(Model(), Dividing), "aten.div.Tensor with complex .*view_as_real"),
        (lambda: step_of(Model(), Turning), "computes with conjugates"),
        (lambda: step_of(Model(), Making), "makes a complex tensor .*aten.complex"),
        (lambda: step_of(Model(), Stacking), "aten.stack.default with complex"),
        (lambda: step_of(Model(), Absolute), "aten.abs.default with complex .*view_as_real"),
    ],
)
def test_refusals(make: Any, text: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises((ExportError, RuntimeError), match=text):
        export(make(), tmp_path)


def test_a_unit_of_its_own_is_sharded(tmp_path: pathlib.Path) -> None:
    export(step_of(sharded()), tmp_path)

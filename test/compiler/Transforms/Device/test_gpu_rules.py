"""Tests that the rules of a plan for GPUs are the optimizers of PyTorch: one fused kernel where there
is one, the same values in any case, and no number of a step outside memory. Run on a CPU, from the
plan's text and with PyTorch's own operators."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import torch

from support import chain

CASES = (
    ("Adam", {"lr": 0.01, "weight_decay": 0.1}, "_fused_adam"),
    ("AdamW", {"lr": 0.3, "betas": (0.8, 0.95), "eps": 1e-5}, "_fused_adamw"),
    ("AdamW", {"lr": 0.01, "amsgrad": True, "maximize": True}, "_fused_adamw"),
    ("AdamW", {"lr": 0.01, "fused": True}, "_fused_adamw"),
    ("SGD", {"lr": 0.1}, "_fused_sgd"),
    (
        "SGD",
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "maximize": True},
        "_fused_sgd",
    ),
    # Its first step is another one, which a flag of the kernel would say.
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}, None),
)


def rule_of(optimizer: str, options: dict[str, Any], tmp_path: pathlib.Path) -> list[str]:
    """The lines of the rule in a plan for GPUs of one parameter."""

    def step(argv: list[str]) -> Any:
        from fsdp_mlir import TrainingStep

        model = torch.nn.Linear(3, 2, bias=False)
        return TrainingStep(
            model,
            lambda model, x: model(x).square().mean(),
            getattr(torch.optim, optimizer)(model.parameters(), **options),
            inputs={"x": torch.randn(4, 3)},
            steps=1,
        )

    plan = chain.compile_step(step, tmp_path, pipeline="mesh=2 device=cuda").plan
    text = chain.plan_text(plan)
    return re.search(r"^rule .*?\n(.*?results [^\n]*)", text, re.S | re.M)[1].splitlines()


def run(
    lines: list[str], tensors: list[torch.Tensor], rate: float, step: float
) -> list[torch.Tensor]:
    """The new parameter and states, from parameter, gradient and states."""
    values: dict[str, Any] = {f"v{i}": t for i, t in enumerate(tensors)}
    values |= {"none": None, "true": True, "false": False, "float32": torch.float32}

    def evaluate(text: str) -> Any:
        text = re.sub(r"(\w+ == \w+) \? (\w+) : (\w+)", r"\2 if \1 else \3", text)
        return eval(text.replace("%", "v"), {}, values)

    for line in map(str.strip, lines):
        if line.startswith("results "):
            return list(evaluate(line.removeprefix("results ") + ","))
        names, text = line.split(" = ", 1)
        if not text.startswith("aten::"):
            known = {"step": step, "lr of group 0": rate}
            values[names] = known[text] if text in known else evaluate(text)
            continue
        callee, given = re.fullmatch(r"aten::([\w.]+)\((.*)\)", text).groups()
        name, _, overload = callee.partition(".")
        op = getattr(getattr(torch.ops.aten, name), overload or "default")
        assert name == "scalar_tensor" or not re.search(r"\bs\d", given), line
        arguments = dict(zip((a.name for a in op._schema.arguments), evaluate(f"({given},)")))
        result = op(**arguments)
        results = [result] if isinstance(result, torch.Tensor) else sum(result, [])
        values |= zip(names.replace("%", "v").split(", "), results)
    raise AssertionError("the rule has no results")


@pytest.mark.quick
@pytest.mark.parametrize("optimizer, options, kernel", CASES)
def test_a_rule_for_gpus_is_pytorchs_optimizer(
    optimizer: str, options: dict[str, Any], kernel: str | None, tmp_path: pathlib.Path
) -> None:
    lines = rule_of(optimizer, options, tmp_path)
    fused = re.findall(r"aten::(_fused_\w+)\.tensor_lr", "\n".join(lines))
    assert fused == ([kernel] if kernel else [])
    torch.manual_seed(0)
    reference = torch.nn.Parameter(torch.randn(37))
    parameter, states = reference.detach().clone(), []
    optim = getattr(torch.optim, optimizer)([reference], **options)
    for step in range(1, 6):
        if step == 4:
            optim.param_groups[0]["lr"] /= 3
        reference.grad = torch.randn(37)
        optim.step()
        rate = optim.param_groups[0]["lr"]
        states = states or [torch.zeros(37) for _ in range(lines[-1].count("%") - 1)]
        parameter, *states = run(lines, [parameter, reference.grad, *states], rate, float(step))
        torch.testing.assert_close(parameter, reference.detach(), rtol=1e-5, atol=1e-6)

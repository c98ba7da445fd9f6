"""Tests that the optimizers' rules have PyTorch's bits, step after step, for every option.

The rule is read from the imported IR and run with PyTorch's own ops, so that nothing of the
runtime is in between.
"""

from __future__ import annotations

import pathlib
import re
import textwrap

import pytest
import torch

from support import chain

STEP = """
import torch
from fsdp_mlir import TrainingStep

def training_step(argv):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2, bias=False)
    return TrainingStep(model, lambda model, x: model(x).square().mean(),
        torch.optim.{optimizer}(model.parameters(), {options}),
        inputs={{"x": torch.randn(4, 3)}}, steps=1)
"""
ADAM = ("lr=0.01", "lr=0.01, weight_decay=0.1, amsgrad=True", "lr=0.3, betas=(0.8, 0.95), eps=1e-5")
SGD = (
    "lr=0.1",
    "lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01",
    "lr=0.1, momentum=0.9, nesterov=True, maximize=True",
)
CASES = (
    [("SGD", o) for o in SGD]
    + [("Adam", o) for o in ADAM]
    + [("AdamW", o) for o in ADAM]
    + [
        ("SGD", SGD[1] + ", foreach=True"),
        ("Adam", ADAM[1] + ", maximize=True, foreach=True"),
        ("AdamW", ADAM[1] + ", maximize=True, foreach=True"),
    ]  # a fused optimizer's rule is its kernel: test/numerics/parity
)


def read_rule(tmp_path: pathlib.Path, optimizer: str, options: str) -> tuple[list[str], list[str]]:
    """The body of the rule, line by line, and the names of the states."""
    step, archive, ir = (tmp_path / name for name in ("step.py", "step.pt", "step.mlir"))
    step.write_text(textwrap.dedent(STEP.format(optimizer=optimizer, options=options)))
    chain.export(step, archive, ())
    chain.command([chain.binary("fsdp-translate"), "--import-torchscript", archive, "-o", ir])
    text = ir.read_text()
    body = re.search(r"func private [^\n]*fsdp\.rule\} \{\n(.*?)\n  \}", text, re.S)
    states = re.search(r"fsdp\.update \S+ @weight, \S+ \[(.*?)\]", text)
    assert body and states
    return body[1].splitlines(), re.findall(r"weight/(\w+)", states[1])


def run_rule(lines: list[str], tensors: list[torch.Tensor], rate: float, step: int):
    values = {f"%arg{i}": t for i, t in enumerate(tensors)}
    scalars = {
        "arith.mulf": lambda a, b: a * b,
        "arith.subf": lambda a, b: a - b,
        "arith.divf": lambda a, b: a / b,
        "math.powf": lambda a, b: a**b,
        "arith.negf": lambda a: -a,
        "arith.cmpf": lambda a, b: a == b,
        "arith.select": lambda c, a, b: a if c else b,
    }
    for line in map(str.strip, lines):
        if line.startswith("return"):
            return [values[n] for n in re.findall(r"%\w+", line)]
        name, text = line.split(" = ", 1)
        operands = [values[n] for n in re.findall(r"%\w+", text.split(" : ")[0])]
        op = text.split()[0]
        if op == "arith.constant":
            values[name] = float(text.split()[1])
        elif op == "fsdp.hyperparameter":
            values[name] = rate
        elif op == "fsdp.step_count":
            values[name] = float(step)
        elif op == "aten.call":
            callee = re.search(r'"([\w.]+)"', text)[1].split(".")
            attributes = dict(re.findall(r"(\w+) = ([-\d.e+]+) : f64", text))
            function = getattr(getattr(torch.ops.aten, callee[0]), (callee + ["default"])[1])
            keywords = {k: float(v) for k, v in attributes.items()}
            names = [a.name for a in function._schema.arguments if a.name not in keywords]
            values[name] = function(**dict(zip(names, operands)), **keywords)
        else:
            values[name] = scalars[op](*operands)
    raise AssertionError("the rule has no return")


@pytest.mark.quick
@pytest.mark.parametrize("optimizer,options", CASES, ids=lambda v: re.sub(r"[^\w.]+", "-", v))
def test_rule_has_pytorchs_bits(tmp_path: pathlib.Path, optimizer: str, options: str) -> None:
    lines, names = read_rule(tmp_path, optimizer, options)
    torch.manual_seed(1)
    count = 37
    reference = torch.nn.Parameter(torch.randn(count))
    parameter = reference.detach().clone()
    states = [torch.zeros(count) for _ in names]
    optim = eval(
        f"torch.optim.{optimizer}([reference], {options})", {"torch": torch, "reference": reference}
    )
    for step in range(1, 8):
        gradient = torch.randn(count)
        gradient[:2] = torch.tensor([0.0, -0.0])
        if step == 4:
            optim.param_groups[0]["lr"] /= 3
        reference.grad = gradient.clone()
        optim.step()
        rate = optim.param_groups[0]["lr"]
        parameter, *states = run_rule(lines, [parameter, gradient, *states], rate, step)
        assert torch.equal(parameter.view(torch.int32), reference.detach().view(torch.int32))
        for name, state in zip(names, states):
            wanted = optim.state[reference]["max_exp_avg_sq" if name.startswith("max") else name]
            assert torch.equal(state.view(torch.int32), wanted.view(torch.int32)), name

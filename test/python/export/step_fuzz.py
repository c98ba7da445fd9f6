"""Random training steps that keep things in Python, against eager PyTorch.

python test/python/export/step_fuzz.py --seeds 0:200     says which seeds fail, and how

A seed is a model whose forward counts, branches, keeps tensors and changes buffers. `fuzz_run` says
what must hold, with eager's bits. Where eager PyTorch itself fails, nothing is asked for.
"""

from __future__ import annotations

import random

import torch
from fuzz_run import Batch, Fuzz

STEPS = 8
HEAD = """import threading
import types
import numpy as np
import torch
from torch import nn

LOCK = threading.RLock()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return 2 * gradient


class Model(nn.Linear):
    total = 0

    def __init__(self):
        super().__init__(8, 3)
        self.n, self.k, self.f, self.flag, self.size = 0, 0, 0.5, False, None
        self.t, self.u, self.c = None, None, torch.tensor(0.5)
        self.d, self.l = {}, []
        self.a, self.s, self.q = np.zeros(2), set(), []
        self.space, self.deep = types.SimpleNamespace(n=0), {"a": {"n": 0}}
        self.register_buffer("fixed", torch.rand(3))
        self.register_buffer("moved", torch.rand(3))
        self.register_buffer("cache", torch.rand(4, 3), persistent=False)
        self.filled = 0
        self.frozen = nn.Parameter(torch.rand(3), requires_grad=False)
        self.inner = nn.Linear(3, 3)
        self.gain = nn.Parameter(torch.rand(8))

    def forward(m, x, kept=[0]):
        y = super().forward(x.clone())
"""
CONDITIONS = (
    *("m.n < {k}", "m.n % {j} == {i}", "m.n in ({i}, {k})", "m.n >= {k} and m.flag"),
    *("m.t is None", "m.u is None", "m.flag", "not m.flag", "m.training", "m.size != len(y)"),
    *("len(m.l) > {i}", "{i} in m.d", "m.f < 0.3", "m.k > {i}", "y.shape[0] > 2"),
    *("m.a[0] > {k}", "{k} in m.s", "sum(m.q) > {k}", "len(m.s) > {k}", "len(m.q) % {j} == 1"),
    *("Model.total > {k}", "kept[0] > {k}", "m.space.n > {k}", "m.deep['a']['n'] > {k}"),
    *("getattr(m, 'late', 0) > {k}", "m.d.get('n', 0) > {k}"),
)
TENSORS = (
    *("m.fixed.cos()", "m.moved.sin()", "torch.arange(3.0)", "y.mean(0)", "y.detach().mean(0)"),
    *("m.weight.detach().mean()", "m.frozen.cos()", "m.c", "torch.full((3,), m.f)"),
    *("(m.t if m.t is not None else m.fixed)", "(m.u if m.u is not None else 1.0)"),
    *("(m.l[-1] if m.l else m.fixed)", "m.d.get({i}, m.fixed)", "m.inner(m.fixed)"),
    *("torch.outer(m.fixed, m.fixed).sum(0)", "torch.tensor([1.0, m.f, 2.0])", "m.fixed"),
    *("m.cache[{i}].clone()", "m.cache[:{j}].sum(0)", "m.cache[{j}:].mean(0)"),
)
NUMBERS = (
    *("(1 + 0.1 * m.n)", "m.f", "(1 + len(m.l))", "0.9**m.n", "min(m.n, {k})", "(m.k + 0.5)"),
    *("(1.0 if m.n < {k} else 0.5)", "0.7", "max(0.1, 1 - m.n / {k})", "(m.n // {j} + 1)"),
    *("(1 + 0.1 * Model.total)", "(1 + kept[0])", "(m.space.n + 0.5)", "(1 + m.deep['a']['n'])"),
    *("float(m.a[0] + 1)", "(m.q[-1] if m.q else 1)", "(1 + len(m.s))"),
)
# What may stand alone, and on either side of a branch.
STATEMENTS = (
    *("m.n += 1", "m.n += 1", "m.k = m.n % {j}", "m.k += 1", "m.f *= 0.9", "m.f = m.f / 2 + 0.1"),
    *("m.flag = True", "m.flag = not m.flag", "m.size = len(y)", "m.n = min(m.n + 1, {k})"),
    *("m.t = {tensor}", "m.u = {tensor}", "m.d.setdefault({i}, {tensor})", "m.l.append({tensor})"),
    *("m.d[{i}] = {tensor}", "m.l = m.l[-2:]", "m.c = m.c + 1", "m.t = None", "m.l.clear()"),
    *(
        "m.moved.data.mul_(0.9)",
        "m.moved = m.moved * 0.9",
        "m.moved.data.copy_(y.detach().mean(0))",
    ),
    *("y = y * {number}", "y = y * {number}", "y = y + {tensor}", "y = y * {tensor}"),
    *("m.cache[{i}] = {tensor}", "m.cache[:{j}] = {tensor}"),
    *("m.a[0] += 1", "m.a[1] = m.n", "m.s.add(m.n)", "m.s.add({i})", "m.q.append(m.n)"),
    *("Model.total += 1", "kept[0] += 1", "m.space.n += 1", "m.deep['a']['n'] += 1"),
    *("m.late = getattr(m, 'late', 0) + 1", "m.d['n'] = m.d.get('n', 0) + 1"),
    *("y = y.relu()", "y = -y", "y = m.inner(y)"),
    *("x.mul_(m.gain)", "y = y + x[:, :3]", "x[0] = m.gain", "x += 1"),
    *("m.cache[{i}] = y.mean(0)", "m.moved.copy_(y[0])", "m.moved.data = y.data[0].clone()"),
    *("y.mul_(0.5)", "y[:, 0] = 0", "y[0] += m.fixed", "y.data.mul_(0.9)", "y = y * y.detach()"),
    *(
        "y = Doubled.apply(y)",
        "y.register_hook(lambda g: 0.5 * g)",
        "y = y.clone().requires_grad_()",
    ),
    "y = torch.utils.checkpoint.checkpoint(m.inner, y, use_reentrant=False)",
    "y = y + torch.autograd.grad(m.inner(y).square().sum(), y, create_graph=True)[0]",
    "y = y + torch.autograd.grad(m.inner(y).sum(), m.inner.bias)[0]",
)
# With which it ends, so that what it keeps counts.
USES = (
    *("y = y * {number}", "y = y * {tensor}", "y = y + {tensor}", "y = y * (m.t if m.flag else 1)"),
    *("y = y if {condition} else -y", "y = y * (2 if {condition} else {number})"),
)


class Writer:
    """Writes the step of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        indent = "        "
        lines = [f"{indent}m.n += 1"] if self._random.random() < 0.6 else []
        for _ in range(self._random.randint(2, 6)):
            lines += self._statement(2)
        lines += [indent + self._fill(self._random.choice(USES)) for _ in range(2)]
        if self._random.random() < 0.4:  # which Dynamo does not follow
            lines = [f"{indent}with LOCK:", *("    " + line for line in lines)]
        self.source = HEAD + "\n".join([*lines, f"{indent}return y", ""])

    def _statement(self, depth: int) -> list[str]:
        indent = "    " * depth
        if self._random.random() > 0.45 or depth > 3:
            return [indent + self._fill(self._random.choice(STATEMENTS))]
        kind = self._random.random()
        if kind < 0.1:  # a table in a buffer
            rows = self._random.choice((2, 3))
            fills = f"    m.cache[:{rows}], m.filled = {self._tensor()}, {rows}"
            return [f"{indent}if m.filled < {rows}:", indent + fills]
        if kind < 0.3:  # a table
            name = self._random.choice("tu")
            return [f"{indent}if m.{name} is None:", f"{indent}    m.{name} = {self._tensor()}"]
        lines = [f"{indent}if {self._fill(self._random.choice(CONDITIONS))}:"]
        lines += self._statement(depth + 1)
        if kind < 0.6:
            lines += [f"{indent}else:", *self._statement(depth + 1)]
        return lines

    def _tensor(self) -> str:
        return self._fill(self._random.choice(TENSORS))

    def _fill(self, text: str) -> str:
        return text.format(
            i=self._random.randint(0, 2),
            j=self._random.randint(2, 3),
            k=self._random.choice((1, 3, 5, 50)),
            tensor=self._fill(self._random.choice(TENSORS)) if "{tensor}" in text else "",
            condition=self._fill(self._random.choice(CONDITIONS)) if "{condition}" in text else "",
            number=self._fill(self._random.choice(NUMBERS)) if "{number}" in text else "",
        )


def batches() -> list[Batch]:
    generator = torch.Generator().manual_seed(1)
    return [
        {
            "x": torch.randn(4, 8, generator=generator),
            "y": torch.randint(3, (4,), generator=generator),
        }
        for _ in range(STEPS)
    ]


def loss(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(x), y)


FUZZ = Fuzz(
    source=lambda seed: Writer(seed).source,
    batches=batches,
    loss=loss,
    optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.02, weight_decay=0.1),
    places=("model.", "in the place of moved"),
)

if __name__ == "__main__":
    FUZZ.main(__doc__.splitlines()[0])

"""Random training steps that write into tensors, views and buffers, with functions of autograd's own,
hooks and checkpoints among them, against eager PyTorch.

python test/python/export/write_fuzz.py --seeds 0:200     says which seeds fail, and how

`fuzz_run` says what must hold. Nothing here changes the order of a sum, so that numbers are eager's
to the bit. Half of the programs are no steps: eager finds that what it needs was written.
"""

from __future__ import annotations

import random

import torch
from fuzz_run import Batch, Fuzz
from torch import Tensor, nn

HEAD = '''import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Doubled(torch.autograd.Function):
    """Gives what it writes."""

    @staticmethod
    def forward(ctx, x):
        y = x.clone()
        return y.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


class Masked(torch.autograd.Function):
    """Saves what it writes."""

    @staticmethod
    def forward(ctx, x):
        mask = torch.zeros_like(x)
        mask[x > 0] = 1
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0] * 1.5


def block(x):
    return torch.tanh((x * 2).add_(1))


def written(x):
    y = torch.tanh(x)
    y.mul_(2)
    return y.sin()


def written_unseen(x):
    y = torch.tanh(x)
    z = y.exp()
    y.data.mul_(2)
    return z * 0.1 + y


class Model(nn.Module):
    def __init__(m):
        super().__init__()
        m.a, m.b, m.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        m.register_buffer("mean", torch.zeros(8))

    def forward(m, x):
        z, y = m.a(x), m.b(x)
        w = z * y
'''
# What a line does with two values, a number and columns.
LINES = (
    *("{a}.mul_({c})", "{a} *= {c}", "{a}.add_({b})", "{a} -= {b} * {c}", "{a}.copy_({b})"),
    *("{a} = {a}.clone()", "{a} = {b} * {c}", "{a} = {a}.detach()", "{a} = {a} + {b}.detach()"),
    *(
        "{a}[:, {i}:{j}] = {b}[:, {i}:{j}]",
        "{a}[:, {i}] += {c}",
        "{a} = {a}.contiguous(); {a}[0] = 0",
    ),
    *("v = {a}.view(-1); v[{i}] = {c}", "v = {a}.t(); v.mul_({c})", "{a}.data.mul_({c})"),
    *("p, q = {a}.chunk(2, 1); p.mul_({c}); {a} = torch.cat([q, p], 1)", "{a}.sin_()"),
    *("{a}.zero_(); {a}.add_({b})", "{a}.clamp_(-1, 1)", "{a}.masked_fill_({b} > {c}, 0.5)"),
    *("{a} = F.relu({a}, inplace=True)", "{a} = {a}.pow(2).add_(1).sqrt_()"),
    *(
        "{a} = Doubled.apply({b})",
        "{a} = Masked.apply({b})",
        "{a} = Doubled.apply(Masked.apply({b}))",
    ),
    *("{a} = checkpoint(block, {b}, use_reentrant=False)", "l = [{a}, {b}]; l[0] += 1; {a} = l[0]"),
    "{a} = checkpoint(Doubled.apply, {b}, use_reentrant=False)",
    *("{a} = checkpoint(written, {b}, use_reentrant=False)", "{a}.data.add_({b})"),
    "{a} = checkpoint(written_unseen, {b}, use_reentrant=False)",
    "{a} = checkpoint(lambda t: t * m.mean + {b}, {a}, use_reentrant=False)",
    "{a}.register_hook(lambda g: g * {c}) if {a}.requires_grad else None",
    *("with torch.no_grad(): {a}.add_({c})", "with torch.no_grad(): {a} = {b} * {c}"),
    *("{a} = torch.where({a} > 0, {a}, {b})", "{a} = torch.stack([{a}, {b}]).sum(0)"),
    *(
        "{a}.index_add_(0, torch.tensor([0, 1]), {b}[:2])",
        "{a}.index_copy_(0, torch.tensor([2]), {b}[:1])",
    ),
    *("{a} = torch.empty_like({b}).copy_({b})", "{a} = {a} + m.mean; m.mean.add_({c})"),
    "o = torch.empty_like({a}); torch.mul({a}.detach(), {c}, out=o); {a} = {a} + o",
    *("m.mean.copy_({a}.detach()[0])", "k = m.a.weight.clone(); k[0] = 0; {a} = {a} @ k"),
)


def source(seed: int) -> str:
    """The file of a seed's step."""
    chosen = random.Random(seed)
    length = chosen.randint(3, 9)
    lines: list[str] = []
    for _ in range(length):
        a, b = chosen.choice("zyw"), chosen.choice("zyw")
        first = chosen.randint(0, 5)
        numbers = {
            "c": round(chosen.uniform(-1.5, 1.5), 2),
            "i": first,
            "j": chosen.randint(first + 1, 7),
        }
        lines.append(chosen.choice(LINES).format(a=a, b=b, **numbers))
    return HEAD + "".join(f"        {line}\n" for line in (*lines, "return m.head(z + y * w)"))


def batches() -> list[Batch]:
    generator = torch.Generator().manual_seed(1)
    return [
        {
            "x": torch.randn(4, 8, generator=generator),
            "labels": torch.randint(3, (4,), generator=generator),
        }
        for _ in range(3)
    ]


def loss(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x), labels)


FUZZ = Fuzz(
    source=source,
    batches=batches,
    loss=loss,
    optimizer=lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9, weight_decay=0.1),
    may_differ="a checkpoint computes with what the step changes",
    places=(f"write_fuzz.py:{loss.__code__.co_firstlineno + 1}: ",),
)

if __name__ == "__main__":
    FUZZ.main(__doc__.splitlines()[0])

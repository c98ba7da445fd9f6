"""Tests that operators of `torch.library` train as their Python bodies say, or are refused by name."""

import pathlib
import threading
from typing import Any, Callable

import numpy
import pytest
import torch
from exporting import assert_same_as_eager, classify, export
from torch import Tensor, nn

from fsdp_mlir import ExportError


@torch.library.custom_op("fsdp_custom::swish", mutates_args=())
def swish(x: Tensor, slope: float = 1.0) -> Tensor:
    return x * (slope * x).sigmoid()


swish.register_fake(lambda x, slope=1.0: torch.empty_like(x))


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.slope = inputs[1]


def _swish_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    (x,) = ctx.saved_tensors
    s = (ctx.slope * x).sigmoid()
    return gradient * (s + ctx.slope * x * s * (1 - s)), None


swish.register_autograd(_swish_backward, setup_context=_keep)


@torch.library.custom_op("fsdp_custom::parts", mutates_args=())
def parts(x: Tensor, at: int) -> tuple[Tensor, Tensor]:
    return x[:, :at].clone(), x[:, at:] * torch.tensor([2.0])


parts.register_fake(lambda x, at: (x.new_empty(len(x), at), x.new_empty(len(x), x.shape[1] - at)))
parts.register_autograd(
    lambda ctx, a, b: (torch.cat((a, 2 * b), 1), None),
)


@torch.library.custom_op("fsdp_custom::mean", mutates_args=())
def mean(rows: list[Tensor], shift: Tensor) -> Tensor:
    return torch.stack(rows).mean(0) + shift


mean.register_fake(lambda rows, shift: torch.empty_like(rows[0]))
mean.register_autograd(
    lambda ctx, gradient: ([gradient / ctx.number] * ctx.number, gradient.sum(0)),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "number", len(inputs[0])),
)


@torch.library.custom_op("fsdp_custom::outer", mutates_args=())
def outer(x: Tensor) -> Tensor:
    """Calls another one, and has a gradient that is one too."""
    return swish(x, 0.5) + 1


@torch.library.custom_op("fsdp_custom::outer_backward", mutates_args=())
def outer_backward(gradient: Tensor, x: Tensor) -> Tensor:
    return gradient * x.cos()


outer.register_fake(lambda x: torch.empty_like(x))
outer_backward.register_fake(lambda gradient, x: torch.empty_like(x))
outer.register_autograd(
    lambda ctx, gradient: outer_backward(gradient, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@torch.library.custom_op("fsdp_custom::by_numpy", mutates_args=())
def by_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(numpy.sin(x.detach().numpy()))


by_numpy.register_fake(lambda x: torch.empty_like(x))
by_numpy.register_autograd(
    lambda ctx, gradient: gradient * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


class BySines(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.from_numpy(numpy.sin(x.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * ctx.saved_tensors[0].cos()


@torch.library.custom_op("fsdp_custom::without_shapes", mutates_args=())
def without_shapes(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.tanh(), x[:, :2].sum(1)


without_shapes.register_autograd(
    lambda ctx, a, b: a * (1 - ctx.saved_tensors[0].square()),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output[0]),
)


@torch.library.custom_op("fsdp_custom::by_loops", mutates_args=())
def by_loops(x: Tensor) -> Tensor:
    return torch.tensor([[2 * float(value) for value in row] for row in x])


by_loops.register_autograd(lambda ctx, gradient: 2 * gradient)


@torch.library.custom_op("fsdp_custom::scale_", mutates_args=("x",))
def scale_(x: Tensor) -> None:
    x.mul_(2)


library = torch.library.Library("fsdp_composite", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
library.define("by_key(Tensor x) -> Tensor")
library.impl("by_key", lambda x: x * 3, "CPU")
library.impl("by_key", lambda x: torch.empty_like(x), "Meta")


def _of_three(x: Tensor, lengths: Tensor) -> Tensor:
    if lengths.max() != 3:
        raise RuntimeError("length mismatch")
    return x * 2


# As kernels of packages: none says what it has for tensors without values. Those of torchaudio
# PyTorch runs on zeros.
packages = [torch.library.Library(name, "FRAGMENT") for name in ("fsdp_package", "torchaudio")]
for package in packages:
    package.define("of_three(Tensor x, Tensor lengths) -> Tensor")
    package.impl("of_three", _of_three, "CPU")

LOCK = threading.Lock()


def under_a_lock(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with LOCK:  # which Dynamo cannot follow
        return function(x)


class Model(nn.Module):
    def __init__(self, body: Callable[[nn.Linear, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.body = nn.Linear(8, 3), body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.layer, x)


BODIES: dict[str, Callable[[nn.Linear, Tensor], Tensor]] = {
    "own-gradient": lambda layer, x: swish(layer(x), 1.5),
    "two-results": lambda layer, x: torch.cat(parts(layer(x), 1)[::-1], 1),
    "list": lambda layer, x: mean([layer(x), layer(-x), x[:, :3]], layer.bias),
    "nested": lambda layer, x: outer(layer(x)),
    "no-register-fake": lambda layer, x: without_shapes(layer(x))[0],
    "composite": lambda layer, x: torch.ops.fsdp_composite.twice(layer(x)),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_takes_the_place_of_its_operator(tmp_path: pathlib.Path, name: str) -> None:
    exported = assert_same_as_eager(classify(Model(BODIES[name])), tmp_path)
    assert {op.partition("::")[0] for op in exported.ops()} == {"aten"}


REFUSED: dict[str, tuple[Callable[[nn.Linear, Tensor], Tensor], str]] = {
    "numpy": (
        lambda layer, x: by_numpy(layer(x)),
        r"the step calls fsdp_custom::by_numpy, whose body is more than tensor code .*; write it, and "
        "its gradient, by torch's operators, which take its place",
    ),
    "numpy-in-a-function": (
        lambda layer, x: BySines.apply(layer(x)),
        "the step gives a tensor to NumPy, and no Python runs while a plan does; write it, and its",
    ),
    "numpy-in-a-function, by running": (
        lambda layer, x: under_a_lock(BySines.apply, layer(x)),
        "the step gives a tensor to NumPy",
    ),
    "numpy-by-hand": (
        lambda layer, x: layer(under_a_lock(lambda x: torch.as_tensor(x.numpy() + 1), x)),
        "the step gives a tensor to NumPy",
    ),
    "numpy-asks-for-an-array": (  # as scipy's linear_sum_assignment does
        lambda layer, x: layer(under_a_lock(lambda x: x + float(numpy.asarray(x).max()), x)),
        "the step gives a tensor to NumPy",
    ),
    "loops": (lambda layer, x: by_loops(layer(x)), "the step reads a tensor's value as a Python"),
    "key": (
        lambda layer, x: torch.ops.fsdp_composite.by_key(x) + layer(x).sum(),
        r"the step calls fsdp_composite::by_key, an operator with a body in Python alone",
    ),
    "package": (
        lambda layer, x: torch.ops.fsdp_package.of_three(layer(x), x.new_full((4,), 3)),
        "the step calls fsdp_package::of_three, an operator of a library",
    ),
    "package-that-pytorch-knows": (
        lambda layer, x: torch.ops.torchaudio.of_three(layer(x), x.new_full((4,), 3)),
        "the step calls torchaudio::of_three, an operator of a library",
    ),
    "changes-its-argument": (
        lambda layer, x: (lambda y: (scale_(y), layer(y))[1])(x.clone()),
        r"calls fsdp_custom::scale_, an operator of torch.library that changes its arguments",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(tmp_path: pathlib.Path, name: str) -> None:
    body, message = REFUSED[name]
    with pytest.raises(ExportError, match=r"^test_custom_operators.py:\d+: .*" + message):
        export(classify(Model(body)), tmp_path)

"""Tests when two runs of a step are told to be the same by their calls."""

import itertools
from typing import Any, Callable

import pytest
import torch
from torch import Tensor

from fsdp_mlir.capture.state.same_calls import Calls, are_same

X, Y = torch.ones(2, requires_grad=True), torch.ones(2)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x + x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient + gradient


def calls_alike(run: int) -> Any:
    made = torch.cat([X.exp(), Y], dim=0)
    return made[:2] * Y, {"loss": made.sum()}


def takes_another_number(run: int) -> Any:
    return X * float(run)


def takes_another_tensor(run: int) -> Any:
    return X.exp() + Y.exp() * (Y, X)[run]


def calls_another(run: int) -> Any:
    return (torch.sin, torch.cos)[run](X)


def calls_less(run: int) -> Any:
    return [X.exp() for _ in range(2 - run)][0]


def returns_another(run: int) -> Any:
    return (X.exp(), X.sin())[:: 1 - 2 * run]


def computes_in_another_dtype(run: int) -> Any:
    torch.set_autocast_dtype("cpu", (torch.bfloat16, torch.float16)[run])
    with torch.autocast("cpu"):
        return X.view(1, 2) @ Y.view(2, 1)


def has_code_in_backward(run: int) -> Any:
    return Twice.apply(X)


def has_a_hook(run: int) -> Any:
    made = X.exp()
    made.register_hook(lambda gradient: gradient)
    return made


def hooks_what_is_saved(run: int) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        return X.exp()


OTHERS = (
    takes_another_number,
    takes_another_tensor,
    calls_another,
    calls_less,
    returns_another,
    computes_in_another_dtype,
    has_code_in_backward,
    has_a_hook,
    hooks_what_is_saved,
)


def runs_of(step: Callable[[int], Any]) -> list[Calls]:
    runs = []
    before = torch.get_autocast_dtype("cpu")
    for number in range(2):
        with Calls() as calls:
            returned = step(number)
        calls.end(returned)
        runs.append(calls)
    torch.set_autocast_dtype("cpu", before)
    return runs


def test_runs_of_the_same_calls() -> None:
    runs = runs_of(calls_alike)
    assert are_same(runs)
    assert not are_same(runs[:1]), "one run has nothing to be the same as"


@pytest.mark.parametrize("step", OTHERS)
def test_runs_that_may_differ(step: Callable[[int], Any]) -> None:
    assert not are_same(runs_of(step))


def test_sizes_by_values() -> None:
    """Their symbols have other names in each run; what is computed of them shows."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    sizes = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
    mode = FakeTensorMode(shape_env=sizes)
    found, more = mode.from_tensor(torch.ones(4)), itertools.count()

    def alike(run: int) -> Any:
        return torch.zeros(found.nonzero().shape[0] + 1)

    def larger(run: int) -> Any:
        return torch.zeros(found.nonzero().shape[0] + next(more))

    with mode:
        assert are_same(runs_of(alike))
        assert not are_same(runs_of(larger))

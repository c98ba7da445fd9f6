"""Operators that take functions (`torch.cond`, `scan`, FlexAttention): a plan has none.

While a step is captured each is the plain code that it stands for, which autograd sees through: `cond` is
an `if`, and a scan is a loop.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Iterator, Sequence
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ...step.places import innermost, is_users
from ..values.decisions import answer_of
from .flex_attention import attention, on_all_devices

Tensor = torch.Tensor
Function = Callable[..., Any]
_higher_order = torch.ops.higher_order


@contextlib.contextmanager
def higher_order_by_code() -> Iterator[None]:
    """Within it, calls of these operators are calls of the functions that they are given."""
    with contextlib.ExitStack() as stack:
        for operator, code in BY_CODE.items():
            call = mock.patch.object(type(operator), "__call__", _without_operator(code))
            stack.enter_context(call)
        stack.enter_context(on_all_devices())
        yield


def _without_operator(code: Function) -> Function:
    return lambda operator, *args, **kwargs: code(*args, **kwargs)


def _cond(condition: Any, yes: Function, no: Function, operands: Sequence[Any]) -> Any:
    """As `if condition:` on the user's line. Where that is a tensor, what the other function alone computes
    with has a gradient of zeros, and not none."""
    if not isinstance(condition, Tensor):
        return yes(*operands) if condition else no(*operands)
    holds = answer_of(condition, innermost(sys._getframe(), is_users))
    if holds is None:
        holds = bool(condition)
    taken, left = (yes, no) if holds else (no, yes)
    with _Read() as by_left:
        left(*operands)
    with _Read() as by_taken:
        results = taken(*operands)
    others = [tensor for key, tensor in by_left.tensors.items() if key not in by_taken.tensors]
    return pytree.tree_map(lambda result: _ZeroGradients.apply(result, *others), results)


class _Read(TorchFunctionMode):
    """Notes the tensors with gradients that the code within it computes with, but does not make itself.

    Attributes:
        tensors: these, by their ids.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tensors: dict[int, Tensor] = {}
        self._made: dict[int, Any] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in pytree.tree_leaves((args, kwargs)):
            if isinstance(value, Tensor) and value.requires_grad and id(value) not in self._made:
                self.tensors[id(value)] = value
        results = func(*args, **(kwargs or {}))
        self._made.update((id(value), value) for value in pytree.tree_leaves(results))
        return results


class _ZeroGradients(torch.autograd.Function):
    """Gives a tensor as it is; in a backward pass the others beside it have gradients of zeros."""

    @staticmethod
    def forward(context: Any, tensor: Tensor, *others: Tensor) -> Tensor:
        context.save_for_backward(*others)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        return gradient, *map(torch.zeros_like, context.saved_tensors)


def _while_loop(goes_on: Function, body: Function, carried: Any, others: Sequence[Any]) -> Any:
    while goes_on(*carried, *others):
        carried = body(*carried, *others)
    return carried


def _scan(combine: Function, carried: Any, sequences: Any, others: Sequence[Any]) -> Any:
    """What is carried in the end, then the results of all places, stacked. Sequences are along dimension
    0, and what the function returns begins with what it carries on."""
    count, results = len(carried), []
    for place in range(sequences[0].shape[0]):
        returned = combine(*carried, *(sequence[place] for sequence in sequences), *others)
        carried = returned[:count]
        results.append(returned[count:])
    return [*carried, *map(torch.stack, zip(*results))]


def _map(function: Function, sequences: Any, others: Sequence[Any]) -> Any:
    places = range(sequences[0].shape[0])
    results = [function(*(each[place] for each in sequences), *others) for place in places]
    return pytree.tree_map(lambda *tensors: torch.stack(tensors), *results)


BY_CODE: dict[Any, Function] = {
    _higher_order.cond: _cond,
    _higher_order.while_loop: _while_loop,
    _higher_order.scan: _scan,
    _higher_order.map_impl: _map,
    _higher_order.flex_attention: attention,
    _higher_order.invoke_subgraph: lambda graph, name, *operands: graph(*operands),
}

"""Sparse tensors, which no plan has: gradients of embeddings are dense, all others are refused. What
code for both kinds asks of dense ones is as in eager mode."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional
from unittest import mock

import torch
from torch import fx
from torch._subclasses.functional_tensor import FunctionalTensor

from ...errors import E, note
from ...step.dense import COMPUTES, REMEDY
from ..graph.nodes import refusal
from .eager_kernels import defined_as, python_kernels

_aten = torch.ops.aten
_BACKWARD = (_aten.embedding_backward.default, _aten._embedding_bag_backward.default)


def _dense(op: Any) -> Callable[..., torch.Tensor]:
    """The backward `op` of an embedding, as if it had not been asked for a sparse gradient."""
    place = [argument.name for argument in op._schema.arguments].index("sparse")

    def code(*args: Any) -> torch.Tensor:
        if args[place]:
            note(
                "an embedding has sparse=True, and its gradient is dense here, with zeros elsewhere"
            )
        with python_kernels({op: {}}):  # as PyTorch has it
            return op(*args[:place], False, *args[place + 1 :])

    return code


def require_dense_constants(module: fx.GraphModule) -> None:
    """Raises ExportError where the graph reads a sparse tensor that code has beside the model."""
    for node in module.graph.nodes:
        value = getattr(module, node.target, None) if node.op == "get_attr" else None
        if isinstance(value, torch.Tensor) and value.layout != torch.strided:
            reader = next(iter(node.users), node)
            raise refusal(E.OPERATOR_REFUSED, reader, f"{COMPUTES}, and {REMEDY}")


@contextlib.contextmanager
def dense_gradients() -> Iterator[None]:
    """Within it, gradients of embeddings are captured as dense ones: the numbers are the same."""
    with defined_as({op: _dense(op) for op in _BACKWARD}):
        yield


def _to_dense(
    self: torch.Tensor, dtype: Optional[torch.dtype] = None, *, masked_grad: Optional[bool] = None
) -> torch.Tensor:
    return self if dtype is None else self.to(dtype)


def gradients_through_to_dense() -> Any:
    """Within it, `to_dense()` of a dense tensor is the tensor, as in eager mode: that of the tensors
    which PyTorch captures with is cut from the gradient, without a word."""
    return mock.patch.object(FunctionalTensor, "to_dense", _to_dense)

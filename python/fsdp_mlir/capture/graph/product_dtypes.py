"""Refuses products of two dtypes at export. Kernels take none, and a graph is captured on tensors
without values, of which no kernel is asked."""

from __future__ import annotations

import torch
from torch import fx

from ...errors import E
from .nodes import arguments_of, refusal

_ATEN = torch.ops.aten
# Operators by what names the two tensors that they multiply.
_FACTORS = {
    _ATEN.mm.default: ("self", "mat2"),
    _ATEN.addmm.default: ("mat1", "mat2"),
    _ATEN.bmm.default: ("self", "mat2"),
    _ATEN.baddbmm.default: ("batch1", "batch2"),
    _ATEN.mv.default: ("self", "vec"),
    _ATEN.dot.default: ("self", "tensor"),
    _ATEN.convolution.default: ("input", "weight"),
}


def require_one_dtype(graph: fx.Graph) -> None:
    """Raises ExportError where a matrix product or a convolution is given two dtypes, as where one
    unit's policy gives out what the next one does not cast."""
    for node in graph.nodes:
        factors = _FACTORS.get(node.target)
        if factors is None:
            continue
        arguments = arguments_of(node)
        left, right = (arguments[name].meta["val"].dtype for name in factors)
        if left != right:
            name = node.target._schema.name.partition("::")[2]
            raise refusal(
                E.CAPTURE_FAILED,
                node,
                f"{name} is given {left} and {right}, and PyTorch has no product of two dtypes; cast "
                "one of them, as a unit's mp_policy does with its inputs (cast_forward_inputs, to "
                "its param_dtype) and its results (output_dtype)",
            )

"""Numbers of Python's that depend on values, as tensors of the graph without dimensions."""

from __future__ import annotations

from typing import Any, Protocol, Sequence, Union

import sympy
import torch
from torch import fx
from torch.utils._sympy import functions as sizes

_aten = torch.ops.aten
_OF_16_BITS = (torch.bfloat16, torch.float16)
Size = Union[int, sympy.Expr]


class Form(Protocol):
    """What is asked of the graph that is rewritten (`static_form`)."""

    counts: dict[sympy.Symbol, fx.Node]
    line: fx.Node

    def call(self, op: Any, *args: Any, **kwargs: Any) -> fx.Node: ...

    def count(self, size: Size) -> fx.Node: ...

    def refused(self, node: fx.Node, reason: str = "") -> Exception: ...


def computed(form: Form, size: Size) -> fx.Node:
    """A number, in int64 or, as Python's floats are, in float64."""
    if isinstance(size, int) or size.is_Integer:
        return form.call(_aten.scalar_tensor.default, int(size), dtype=torch.int64, device="cpu")
    if size.is_Symbol and size in form.counts:
        return form.counts[size]
    if size.is_Rational or size.is_Float:
        return form.call(
            _aten.scalar_tensor.default, float(size), dtype=torch.float64, device="cpu"
        )
    kind = type(size)
    operands = [form.count(part) for part in size.args]
    if kind in (sympy.Add, sympy.Mul):
        op = _aten.add.Tensor if kind is sympy.Add else _aten.mul.Tensor
    elif kind in (sizes.FloorDiv, sizes.CleanDiv):
        return form.call(_aten.div.Tensor_mode, *operands, rounding_mode="floor")
    elif kind in (sizes.IntTrueDiv, sizes.FloatTrueDiv):
        op = _aten.div.Tensor
        operands = [form.call(_aten._to_copy.default, n, dtype=torch.float64) for n in operands]
    elif kind is sizes.ToFloat:
        return form.call(_aten._to_copy.default, *operands, dtype=torch.float64)
    elif kind in (sizes.Mod, sizes.PythonMod):
        op = _aten.remainder.Tensor
    elif kind in (sympy.Max, sizes.Max, sympy.Min, sizes.Min):
        op = _aten.maximum.default if "Max" in kind.__name__ else _aten.minimum.default
    else:
        raise form.refused(form.line, f"it reads the number {size}")
    whole = operands[0]
    for operand in operands[1:]:
        whole = form.call(op, whole, operand)
    return whole


def beside(form: Form, number: fx.Node, count: fx.Node, tensors: Sequence[fx.Node]) -> Any:
    """`count`, the tensor for `number`, as an operand beside `tensors`. A number of Python's takes their
    dtype, where a tensor without dimensions may change the result's."""
    if not tensors:
        return count
    like = 1.0 if isinstance(number.meta["val"], torch.SymFloat) else 1
    dtype = torch.result_type(tensors[0].meta["val"], like).to_real()
    if dtype in _OF_16_BITS:  # to which kernels do not round a number
        dtype = torch.float32
    if count.meta["val"].dtype == dtype:
        return count
    return form.call(_aten._to_copy.default, count, dtype=dtype)


def as_captured(form: Form, node: fx.Node, result: fx.Node) -> fx.Node:
    """`result` of a call in the place of `node`, of 16 bits again where a number of 32 was its operand."""
    captured = node.meta["val"]
    if not isinstance(captured, torch.Tensor) or captured.dtype not in _OF_16_BITS:
        return result
    if result.meta["val"].dtype == captured.dtype:
        return result
    return form.call(_aten._to_copy.default, result, dtype=captured.dtype)

"""Functions of NumPy that code gives a number which differs from step to step: `np.exp(-n / 100)`.

A number is a tensor without dimensions, of float64 or int64 (`python_floats`), as NumPy has it."""

from __future__ import annotations

import math
import operator
from typing import Any, Callable

import torch

# Those that an operator of Python's computes as well.
OPERATORS: dict[str, Callable[..., Any]] = {
    "absolute": abs,
    "add": operator.add,
    "divide": operator.truediv,
    "equal": operator.eq,
    "floor_divide": operator.floordiv,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "isfinite": lambda value: abs(value) < math.inf,
    "isinf": lambda value: abs(value) == math.inf,
    "isnan": lambda value: value != value,
    "less": operator.lt,
    "less_equal": operator.le,
    "multiply": operator.mul,
    "negative": operator.neg,
    "not_equal": operator.ne,
    "power": operator.pow,
    "remainder": operator.mod,
    "subtract": operator.sub,
}


def _of_floats(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda value: function(value.to(torch.float64))


# And others, of tensors.
ON_TENSORS: dict[str, Callable[..., torch.Tensor]] = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "sign": torch.sign,
    "square": torch.square,
    **{
        name: _of_floats(getattr(torch, name))
        for name in "ceil cos exp expm1 floor log log10 log1p log2 sin sqrt tan tanh trunc".split()
    },
}

"""What an exception that a step raises while it is followed says of the step."""

from __future__ import annotations

from typing import Any, Mapping

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)

from .reach import way_out


def reason_of(error: Exception, attributes: Mapping[str, Any]) -> str:
    """Why the step of an optimizer with these attributes, which raised `error`, cannot be followed,
    and what to change."""
    if isinstance(error, DynamicOutputShapeException):
        return (
            f"takes as many elements of a tensor as its values say ({error.func}), and a plan's "
            "tensors have one size in all steps; compute with all elements, as "
            "torch.where(mask, x, 0.0) does, and write by x.copy_(torch.where(mask, new, x))"
        )
    if isinstance(error, DataDependentOutputException):
        return (
            f"reads a truth value of tensors ({error.func}); compare numbers that it reads by "
            "item(), as (x - y).abs().max().item() <= tolerance"
        )
    inner = [x for x in attributes.values() if isinstance(x, torch.optim.Optimizer)]
    hint = f"; {way_out(inner[0])}" if inner else ""
    return f"cannot be followed: {type(error).__name__}: {' '.join(str(error).split())}{hint}"

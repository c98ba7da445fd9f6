"""What an optimizer's steps leave as state, and what a step finds of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import E, ExportError
from .numbers import Number
from .pairs import element_dtype
from .trace import Trace
from .values import Expr, Layout

aten = torch.ops.aten
_ONE: Layout = ((1,), (1,))


@dataclass
class Kept:
    """A tensor that a step has left as state."""

    dtype: torch.dtype
    is_number: bool
    layout: Layout


def first_state(trace: Trace, index: int, param: torch.Tensor, name: str, value: Any) -> Any:
    """State that the optimizer had before its first step."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dim() == 0 and (param.numel() != 1 or name == "step"):
        number = trace.pool.constant(_uniform(name, value))
        return trace.make((), (), value.dtype, number)
    number = trace.pool.constant(_uniform(name, value))
    with _disable_current_modes():
        strides = value.contiguous().stride()
    shape, stride, layout = _placed(param, (tuple(value.shape), strides))
    fill = trace.pool.make("fill", number, dtype=element_dtype(value.dtype), layout=layout)
    return trace.make(shape, stride, value.dtype, fill)


def _placed(param: torch.Tensor, own: Layout) -> tuple[Any, Any, Optional[Layout]]:
    """Shape and strides of a state, and the layout that its value has: none where the state is of
    the parameter's shape."""
    if own[0] == tuple(param.shape):
        return param.shape, param.stride(), None
    return *own, own


def _uniform(name: str, value: torch.Tensor) -> float:
    with _disable_current_modes():
        if value.is_complex():
            value = torch.view_as_real(value)
        one = value.flatten()[0].item() if value.numel() else 0.0
        if name == "step" and one != 0 or not bool((value == one).all()):
            raise ExportError(
                E.OPTIMIZER,
                "the optimizer has state from earlier steps, and a run starts from the first one; "
                "make a new optimizer, and give the state to the run: run.load_state_dict() in a "
                "loop (docs/own-loop.md), else an imported checkpoint "
                "(docs/checkpoint-interchange.md)",
            )
    return float(one)


def later_state(
    trace: Trace, index: int, param: torch.Tensor, name: str, value: Any, number: Expr
) -> Any:
    """State that an earlier step has left; where it is one number, that is `number`."""
    if isinstance(value, (int, float, Number)) and not isinstance(value, bool):
        return Number(trace, number)
    if not isinstance(value, Kept):
        return value
    if value.is_number:
        return trace.make((), (), value.dtype, number)
    shape, stride, layout = _placed(param, value.layout if value.layout[0] else _ONE)
    held = trace.pool.make("input", index, name, dtype=element_dtype(value.dtype), layout=layout)
    made = trace.make(shape, stride, value.dtype, held)
    return made if value.layout[0] else made.view(())


def left_state(trace: Trace, value: torch.Tensor) -> Expr:
    """What a step leaves of a tensor as state: a tensor without dimensions is kept as one of one
    element, as such a parameter is."""
    left = trace.value_of(value)
    if left.is_number or value.dim():
        return left
    return trace.pool.make(
        "call", aten.view.default, left, _ONE[0],
        dtype=left.dtype, layout=_ONE, where=left.where,
    )  # fmt: skip


def kept_of(trace: Trace, state: dict[str, Any]) -> dict[str, Any]:
    """What is left of a parameter's state behind a step: of tensors, what they were."""
    return {
        name: (
            Kept(
                value.dtype,
                trace.value_of(value).is_number,
                (tuple(value.shape), tuple(value.stride())),
            )
            if isinstance(value, torch.Tensor)
            else value
        )
        for name, value in state.items()
    }

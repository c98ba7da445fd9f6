"""What an optimizer's steps leave as state, and what a step finds of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import E, ExportError
from ..step.strides import row_major_strides
from .numbers import Number
from .pairs import element_dtype
from .trace import Trace
from .values import Expr, Layout
from .views import laid_out, layout_of

aten = torch.ops.aten
_ONE: Layout = ((1,), (1,))


@dataclass
class Kept:
    """A tensor that a step has left as state. Others than row-major ones are held row by row, and
    lie for the next step as they lay."""

    dtype: torch.dtype
    is_number: bool
    layout: Layout
    is_row_major: bool


def first_state(trace: Trace, index: int, param: torch.Tensor, name: str, value: Any) -> Any:
    """State that the optimizer had before its first step."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dim() == 0 and (param.numel() != 1 or name == "step"):
        number = trace.pool.constant(_uniform(name, value))
        return trace.make((), (), value.dtype, number)
    number = trace.pool.constant(_uniform(name, value))
    # One without dimensions is taken for one of one element, as such a parameter is.
    own = tuple(value.shape) or _ONE[0]
    shape, stride, layout = _placed(param, (own, row_major_strides(own)))
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
    if not value.is_row_major:
        rows = value.layout[0], row_major_strides(value.layout[0])
        held = trace.pool.make("input", index, name, dtype=value.dtype, layout=rows)
        lain = laid_out(trace.pool, held, rows, value.layout, "")
        return trace.make(*value.layout, value.dtype, lain)
    shape, stride, layout = _placed(param, value.layout if value.layout[0] else _ONE)
    held = trace.pool.make("input", index, name, dtype=element_dtype(value.dtype), layout=layout)
    made = trace.make(shape, stride, value.dtype, held)
    return made if value.layout[0] else made.view(())


def left_state(trace: Trace, value: torch.Tensor) -> Expr:
    """What a step leaves of a tensor as state: a tensor without dimensions is kept as one of one
    element, as such a parameter is."""
    left = trace.value_of(value)
    if left.is_number:
        return left
    if value.dim():
        if value.is_contiguous() or value.is_complex():
            return left
        rows = tuple(value.shape), row_major_strides(value.shape)
        return laid_out(trace.pool, left, layout_of(value), rows, left.where)
    return trace.pool.make(
        "call", aten.view.default, left, _ONE[0],
        dtype=left.dtype, layout=_ONE, where=left.where,
    )  # fmt: skip


def kept_of(trace: Trace, state: dict[str, Any]) -> dict[str, Any]:
    """The state that a step leaves of a parameter; tensors as they were then."""

    def kept(_: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        layout = tuple(value.shape), tuple(value.stride())
        is_number = trace.value_of(value).is_number
        return Kept(value.dtype, is_number, layout, is_number or value.is_contiguous())

    return with_members(kept, state)


def with_members(change: Callable[[str, Any], Any], state: dict[str, Any]) -> dict[str, Any]:
    """A parameter's state with `change` of each part. The third member of a list `x` has the name
    `x.2`, and so have those of a dictionary."""

    def changed(name: str, value: Any) -> Any:
        if type(value) is dict:
            return {key: changed(f"{name}.{key}", x) for key, x in value.items()}
        if type(value) in (list, tuple):
            return type(value)(changed(f"{name}.{i}", x) for i, x in enumerate(value))
        return change(name, value)

    return {name: changed(name, value) for name, value in state.items()}


def members_of(state: dict[str, Any]) -> dict[str, Any]:
    """A parameter's state by name, with the members of lists and dictionaries."""
    found: dict[str, Any] = {}
    with_members(found.__setitem__, state)
    return found

"""The memory of a step that is followed: which expression each tensor holds."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ..errors import E, ExportError
from ..step.memory import storage_of
from ..step.places import at_line
from .numbers import current_line
from .values import Expr, Layout, Pool
from .views import layout_of, order_of, permuted, strided, view_of


class Cell:
    """A tensor's memory: what it holds and held at first, and of which size and strides."""

    def __init__(self, tensor: torch.Tensor, value: Expr) -> None:
        self.tensor, self.value, self.first = tensor, value, value
        self.shape, self.stride = layout_of(tensor)


class Memory(TorchDispatchMode):
    """Tensors of one way through a step of the optimizer `name`, and what they hold."""

    def __init__(self, pool: Pool, name: str) -> None:
        super().__init__()
        self.pool, self.name = pool, name
        self._cells: dict[int, Cell] = {}
        self._making = False

    def fail(self, what: str) -> NoReturn:
        raise ExportError(
            E.OPTIMIZER_STEP, at_line(current_line(), f"the step of {self.name} {what}")
        )

    def number(self, value: Any) -> Expr:
        if isinstance(value, torch.SymFloat):
            return value.node.number.value
        return self.pool.constant(value)

    def add(self, tensor: torch.Tensor, value: Expr) -> torch.Tensor:
        self._cells[storage_of(tensor)] = Cell(tensor, value)
        return tensor

    def make(self, shape: Any, stride: Any, dtype: torch.dtype, value: Expr) -> torch.Tensor:
        """A tensor of its own that holds `value`."""
        self._making = True
        try:
            return self.add(torch.empty_strided(shape, stride, dtype=dtype), value)
        finally:
            self._making = False

    def made(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is one of this step."""
        return storage_of(tensor) in self._cells

    def value_of(self, tensor: torch.Tensor) -> Expr:
        """What a tensor holds: a number where it has no dimension and no parameter's shape."""
        cell = self._cells.get(storage_of(tensor))
        if cell is not None:
            if layout_of(tensor) == (cell.shape, cell.stride):
                return cell.value
            if cell.value.is_number and tensor.numel() == 1:
                return cell.value
            return view_of(self.pool, cell.value, tensor, (cell.shape, cell.stride), current_line())
        if tensor.numel() != 1:
            self.fail(
                f"reads a tensor of shape {list(tensor.shape)} that is neither the parameter, nor "
                "its gradient, nor state of the optimizer"
            )
        wrapped = getattr(tensor, "_wrapped_number", None)
        if wrapped is not None:
            return self.number(wrapped)
        with _disable_current_modes():
            return self.pool.constant(tensor.item())

    def first_value_of(self, tensor: torch.Tensor) -> Expr:
        """What a tensor of this step was made with."""
        cell = self._cells.get(storage_of(tensor))
        return cell.first if cell else self.value_of(tensor)

    def _write(self, tensor: torch.Tensor, value: Expr) -> torch.Tensor:
        cell = self._cells.get(storage_of(tensor))
        if cell is None:
            return self.add(tensor, value)
        layout = (cell.shape, cell.stride)
        if layout_of(tensor) != layout:
            value = self._unviewed(tensor, cell, value, layout)
        cell.value = value
        return tensor

    def _unviewed(self, tensor: torch.Tensor, cell: Cell, value: Expr, layout: Layout) -> Expr:
        """What memory holds where `value` is written to a view of all of it."""
        order, where = order_of(tensor, layout), current_line()
        if order is not None:
            inverse = tuple(order.index(i) for i in range(len(order)))
            return permuted(self.pool, value, inverse, layout, where)
        if not (tensor.is_contiguous() and cell.tensor.is_contiguous()) or (
            tensor.numel() != cell.tensor.numel()
        ):
            self.fail(
                f"writes to a tensor of shape {list(cell.shape)} as to one of "
                f"{list(tensor.shape)}; a step may write to whole tensors"
            )
        return strided(self.pool, value, layout, 0, where)

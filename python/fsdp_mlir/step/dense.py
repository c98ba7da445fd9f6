"""What to say of sparse tensors."""

from __future__ import annotations

import inspect

import torch

from ..errors import E, ExportError
from .places import in_short, is_users

COMPUTES = "the step computes with a sparse tensor"
REMEDY = (
    "plans have dense ones alone; make it dense before the step (edges.to_dense()), or keep rows, "
    "columns and values as dense tensors, and multiply by "
    "x.new_zeros(count, x.shape[1]).index_add(0, rows, values[:, None] * x[columns])"
)


def require_dense(role: str, fqn: str, tensor: torch.Tensor, owner: torch.nn.Module) -> None:
    """Raises ExportError where a state of the module `owner` is sparse."""
    if tensor.layout == torch.strided:
        return
    layout = str(tensor.layout).removeprefix("torch.")
    raise ExportError(
        E.OPERATOR_REFUSED,
        f"{_class_line(owner)}the {role} {fqn} is a sparse tensor ({layout}), and {REMEDY}",
    )


def _class_line(module: torch.nn.Module) -> str:
    """`file.py:12: ` of a module's class, where that is a user's."""
    try:
        file = inspect.getsourcefile(type(module)) or ""
        _, line = inspect.getsourcelines(type(module))
    except (OSError, TypeError):
        return ""
    return f"{in_short(file, line)}: " if is_users(file) else ""

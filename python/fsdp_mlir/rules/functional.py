"""Operators that do the same as others: return what these write in place, or take one tensor of
each of their lists."""

from __future__ import annotations

import re
from typing import Any, Optional

import torch

aten = torch.ops.aten


def functional_form(op: Any) -> Any:
    """The form of `op` that returns what it writes, or None."""
    if not op._schema.is_mutable:
        return op
    wanted = [
        (a.name, str(a.type)) for a in op._schema.arguments if not (a.kwarg_only and a.alias_info)
    ]
    packet = getattr(aten, op._schema.name.split("::")[1].rstrip("_"), None)
    for overload in packet.overloads() if packet else ():
        form = getattr(packet, overload)
        arguments = [(a.name, str(a.type)) for a in form._schema.arguments]
        if not form._schema.is_mutable and arguments == wanted:
            return form
    return None


def calls_of_members(op: Any, given: dict[str, Any]) -> Optional[tuple[Any, list[list[Any]]]]:
    """What PyTorch calls, on the CPU, for one member of its lists after the other, where an operator
    on lists is called with `given`; or None."""
    form, values = _form_of_members(op), list(given.values())
    if form is aten.linalg_vector_norm.default:
        values[2:2] = [None, False]  # of all dimensions, none of them kept
    if form is None:
        return None
    lists = [isinstance(value, (list, tuple)) for value in values]
    count = len(values[lists.index(True)])
    return form, [[v[i] if many else v for v, many in zip(values, lists)] for i in range(count)]


def _form_of_members(op: Any) -> Optional[Any]:
    name = op._schema.name.split("::")[1].removeprefix("_foreach_")
    if name == "norm":
        return aten.linalg_vector_norm.default
    wanted = [re.sub(r"List\[(\w+)\]", r"\1", str(a.type)) for a in op._schema.arguments]
    packet = getattr(aten, name, None)
    for overload in packet.overloads() if packet else ():
        form = getattr(packet, overload)
        types = [str(a.type) for a in form._schema.arguments]
        rest = form._schema.arguments[len(wanted) :]
        alike = form._schema.is_mutable == op._schema.is_mutable
        if alike and types[: len(wanted)] == wanted and all(a.has_default_value() for a in rest):
            return form
    return None

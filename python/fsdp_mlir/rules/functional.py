"""Operators that return what others write in place."""

from __future__ import annotations

from typing import Any

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

"""The best of boxes of which there are as many as values say."""

from __future__ import annotations

from torch import fx

from ..graph.nodes import arguments_of
from .static_form import Rule, StaticForm


def _batched_nms(form: StaticForm, node: fx.Node) -> fx.Node:
    """The operator leaves out what is behind those that count."""
    size = form.shape(arguments_of(node)["scores"])[0]
    return form.again(node, count=form.count(size))


BOXES: dict[str, Rule] = {"fsdp_mlir::batched_nms": _batched_nms}

"""Writes into parts of a tensor, without the copies that a graph free of mutation has around them.

`t[..., i, :i] = v` becomes `copy(part, v)`, which fills a copy of all of `t`'s memory, and scatters
of its result; a gradient that is written into is copied as a whole first. In a graph without
mutation nobody can tell such a copy from what it was made of.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from .nodes import arguments_of, insert_call, replace

_aten = torch.ops.aten
_SCATTERS = (_aten.slice_scatter.default, _aten.select_scatter.default)


def simplify_part_writes(graph: fx.Graph) -> None:
    """Drops copies of values that have all bits already, and pads once where a gradient of a part
    of a part is padded twice. Bits and layouts of what remains stay as they were."""
    for node in list(graph.nodes):
        if node.target is _aten.copy.default:
            _use_source(node)
        elif node.target is _aten.slice_scatter.default:
            _join_parts(node)
        elif _is_backward(node):
            _pad_once(node)


def _use_source(node: fx.Node) -> None:
    """Puts what is copied in place of the copy, where that has the same elements in the same
    layout, or where the layout does not matter."""
    source = arguments_of(node)["src"]
    made, given = node.meta["val"], source.meta["val"]
    same = (made.shape, made.dtype, made.device) == (given.shape, given.dtype, given.device)
    lazy = given.is_conj() or given.is_neg()  # the copy computes it
    if not same or lazy or any(user.op == "output" for user in node.users):
        return
    if made.stride() == given.stride():
        replace(node, source)
        return
    for user in list(node.users):
        if _is_written(node, user):
            user.replace_input_with(node, source)
    if not node.users:
        node.graph.erase_node(node)


def _is_written(node: fx.Node, user: fx.Node) -> bool:
    """Whether `user` writes `node` into another tensor, so that its own layout does not matter."""
    return user.target in _SCATTERS and arguments_of(user)["self"] is not node


def _join_parts(node: fx.Node) -> None:
    """Puts what is written into a row beside the rest of the row, where the row lies in a larger
    tensor: the scatter would copy all memory between the row's first element and its last."""
    arguments = arguments_of(node)
    row, source, dim = arguments["self"], arguments["src"], arguments["dim"]
    made = row.meta["val"]
    span = 1 + sum((size - 1) * stride for size, stride in zip(made.shape, made.stride()))
    if span <= made.numel() or not all(_is_written(node, user) for user in node.users):
        return
    if arguments["step"] != 1 or source.meta["val"].dtype != made.dtype:
        return
    begin, end = _bounds(arguments, made.shape[dim])
    parts = [source]
    with node.graph.inserting_before(node):
        if begin > 0:
            parts.insert(0, insert_call(node, _aten.slice.Tensor, row, dim, 0, begin))
        if end < made.shape[dim]:
            parts.append(insert_call(node, _aten.slice.Tensor, row, dim, end))
        joined = insert_call(node, _aten.cat.default, parts, dim)
    replace(node, joined)


def _bounds(arguments: dict[str, Any], size: int) -> tuple[int, int]:
    """Where the part of a dimension of so many elements begins and ends, of a slice or a row."""
    if "index" in arguments:
        begin = arguments["index"] % size
        return begin, begin + 1
    begin, end, _ = slice(arguments["start"], arguments["end"]).indices(size)
    return begin, max(begin, end)


# The gradients of a slice and of a row: zeros, with the part's gradient in its place.
_BACKWARDS = (_aten.slice_backward.default, _aten.select_backward.default)


def _is_backward(node: fx.Node) -> bool:
    return node.target in _BACKWARDS and arguments_of(node).get("step", 1) == 1


def _pad_once(last: fx.Node) -> None:
    """Pads the gradient of a part of a part of a tensor at once, where `last` pads what was padded
    for nobody else."""
    backwards = [last]
    while _is_backward(backwards[0]) and len(backwards[0].args[0].users) == 1:
        backwards.insert(0, backwards[0].args[0])
    if not _is_backward(backwards[0]):
        del backwards[0]
    if len(backwards) < 2 or (len(last.users) == 1 and _is_backward(next(iter(last.users)))):
        return
    gradient = backwards[0].args[0]
    with last.graph.inserting_before(last):
        around = [(0, 0)] * gradient.meta["val"].dim()
        for backward in backwards:
            arguments = arguments_of(backward)
            sizes = arguments["input_sizes"]
            dim = arguments["dim"] % len(sizes)
            begin, end = _bounds(arguments, sizes[dim])
            if "index" in arguments:
                gradient = insert_call(last, _aten.unsqueeze.default, gradient, dim)
                around.insert(dim, (0, 0))
            around[dim] = (around[dim][0] + begin, around[dim][1] + sizes[dim] - end)
        # From the last dimension to the first, as PyTorch counts them here.
        widths = [width for pair in reversed(around) for width in pair]
        padded = insert_call(last, _aten.constant_pad_nd.default, gradient, widths)
    if padded.meta["val"].stride() == last.meta["val"].stride():
        last.replace_all_uses_with(padded)

"""Parameters and buffers that are not row-major in a model, as channels-last or transposed ones.

Archives, plans and files hold them row-major. Operators see the model's order, since kernels are
chosen by it and round by it: each reads a copy in that order.
"""

from __future__ import annotations

import torch
from torch import fx

from ...step.names import StateNames
from ...step.strides import has_gaps, memory_order, row_major_strides
from .nodes import insert_call
from .program import Program

aten = torch.ops.aten


def without_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """What a capture reads in the place of a parameter or a buffer: the tensor itself, or, where it
    is a part of a larger one or expanded, one in the same order whose elements lie together."""
    if tensor.layout != torch.strided or not has_gaps(tensor):
        return tensor
    order = memory_order(tensor)
    with torch.no_grad():
        copy = tensor.detach().permute(order).contiguous()
        copy = copy.permute([order.index(dim) for dim in range(len(order))])
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(copy, requires_grad=tensor.requires_grad)
    return copy


def hold_row_major(program: Program, names: StateNames) -> None:
    """Makes the parameters and buffers of `program`, and its results for them, row-major."""
    ordered: set[str] = set()
    for argument in program.arguments:
        if argument.role in ("parameter", "buffer"):
            value = argument.node.meta["val"]
            if value.stride() != row_major_strides(value.shape):
                ordered.add(argument.fqn)
                _read_in_order(program, argument.node, value)
    for result in program.results:
        if result.role in ("gradient", "buffer_update") and result.fqn in ordered:
            result.node = _by_rows(result.node)


def _read_in_order(program: Program, node: fx.Node, wanted: torch.Tensor) -> None:
    """Makes `node` row-major, and gives each of its readers, in front of it, a copy in the order of
    `wanted`. One copy for all would be kept from forward to backward, which a parameter is not."""
    with wanted.fake_mode, torch.no_grad():
        node.meta["val"] = torch.empty(wanted.shape, dtype=wanted.dtype)
    _give_each_reader_its_views(node)
    for user in list(node.users):
        with node.graph.inserting_before(user):
            copy = _laid_out(node if user.op == "output" else user, node, wanted)
        if copy is not node:
            user.replace_input_with(node, copy)
        for result in program.results:
            if user.op == "output" and result.node is node:
                result.node = copy


def _give_each_reader_its_views(node: fx.Node) -> None:
    """Makes each view of `node`, and of its views, a view for one reader, in front of it."""
    for view in [user for user in node.users if is_view(user)]:
        for reader in list(view.users):
            if reader.op == "output":
                continue
            with node.graph.inserting_before(reader):
                own = node.graph.node_copy(view)
            own.meta = dict(view.meta)
            if "partitioner_tag" in reader.meta:
                own.meta["partitioner_tag"] = reader.meta["partitioner_tag"]
            reader.replace_input_with(view, own)
            _give_each_reader_its_views(own)
        if not view.users:
            node.graph.erase_node(view)


def is_view(node: fx.Node) -> bool:
    """Whether a call returns one tensor, which is a view of its operand."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    returns = node.target._schema.returns
    alias = returns[0].alias_info if len(returns) == 1 else None
    is_one = isinstance(node.meta.get("val"), torch.Tensor)
    return is_one and alias is not None and not alias.is_write


def _laid_out(place: fx.Node, node: fx.Node, wanted: torch.Tensor) -> fx.Node:
    """`node`, which is row-major, in the order of `wanted`, computed where `place` is."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    as_format = formats.get(wanted.dim())
    # Of sizes of 1, too, strides say which format a kernel takes a tensor for.
    if as_format and wanted.is_contiguous(memory_format=as_format):
        return _call_at(place, aten.clone.default, node, memory_format=as_format)
    if wanted.is_contiguous():
        return node
    order = memory_order(wanted)
    copy = _call_at(place, aten.permute.default, node, order)
    copy = _call_at(place, aten.clone.default, copy, memory_format=torch.contiguous_format)
    return _call_at(place, aten.permute.default, copy, [order.index(d) for d in range(len(order))])


def _by_rows(node: fx.Node) -> fx.Node:
    value = node.meta["val"]
    if value.stride() == row_major_strides(value.shape):
        return node
    with node.graph.inserting_after(node):
        return _call_at(node, aten.clone.default, node, memory_format=torch.contiguous_format)


def _call_at(
    place: fx.Node, op: torch._ops.OpOverload, *args: object, **options: object
) -> fx.Node:
    """A call at the place of another node, to which that node's checkpoint policy does not apply."""
    call = insert_call(place, op, *args, **options)
    call.meta.pop("recompute", None)
    return call

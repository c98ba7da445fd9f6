"""Calls of operators in a captured graph: their arguments by name, their place, new ones."""

from __future__ import annotations

import itertools
from typing import Any, Mapping

import torch
from torch import fx

from ...errors import E, ExportError
from ...step.names import StateNames
from ...step.places import FRAME, at_line, said_location, user_location
from ...step.source import is_answered_at
from . import own_operators


def location(node: fx.Node) -> str:
    """The user's line that `node` comes from, as messages have it, or ""."""
    return said_location(node.meta.get("stack_trace") or "")


def source(node: fx.Node) -> str:
    """`file.py:31` of the line that calls the operator, which may be a library's, or ""."""
    return user_location(node.meta.get("stack_trace") or "")


def is_answered(node: fx.Node, error: str) -> bool:
    """Whether the step goes on behind an error of this name that the call of `node` raises."""
    frames = FRAME.findall(node.meta.get("stack_trace") or "")
    return any(is_answered_at(path, int(line), error) for path, line in frames)


def refusal(kind: E, node: fx.Node, why: str) -> ExportError:
    """The error that `node` cannot be exported, with the user's line where it is known."""
    return ExportError(kind, at_line(location(node), why))


def refused_higher_order(call: fx.Node) -> ExportError:
    """The error that a call of functions with tensors is not one of a tensor operator."""
    return refusal(
        E.OPERATOR_REFUSED,
        call,
        f"the step uses a higher-order op ({call.target}), which cannot be exported; write it as "
        "plain tensor code",
    )


def of_a_library(name: str) -> str:
    """Why an operator is refused that a Python package brings."""
    return (
        f"the step calls {name}, an operator of a library that is loaded into Python, and no Python "
        "runs while a plan does; write it as plain tensor code"
    )


def state_of(node: fx.Node, tensor: torch.Tensor, names: StateNames) -> tuple[str, str]:
    """Role and name of `tensor`, which `node` reads; an error has the first line that uses it."""
    try:
        return names.of(tensor)
    except ExportError as error:
        raise refusal(error.kind, first_user(node), error.message) from error


def first_user(node: fx.Node) -> fx.Node:
    """The first call that takes what `node` is, or `node` itself where there is none."""
    return next(iter(node.users), node)


# They have the tag for another reason: the first takes no dropout, which such kernels do elsewhere, and
# what the others give differs between ranks.
_DRAW_NOTHING = (
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    own_operators.sum_over_ranks,
    own_operators.rank,
)


def is_random(op: Any) -> bool:
    """Whether an operator draws random numbers."""
    return op not in _DRAW_NOTHING and torch.Tag.nondeterministic_seeded in getattr(op, "tags", ())


def is_backward(meta: Mapping[str, Any]) -> bool:
    """Whether a call with this metadata is of the backward pass."""
    return meta.get("partitioner_tag") == "is_backward"


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors among the results of a call."""
    members = value if isinstance(value, (list, tuple)) else (value,)
    return [member for member in members if isinstance(member, torch.Tensor)]


def arguments_of(node: fx.Node) -> dict[str, Any]:
    """Every argument of `node` by its schema name, defaults included."""
    values = {}
    for index, argument in enumerate(node.target._schema.arguments):
        if index < len(node.args):
            values[argument.name] = node.args[index]
        elif argument.name in node.kwargs:
            values[argument.name] = node.kwargs[argument.name]
        else:
            values[argument.name] = argument.default_value
    return values


# What says where in the program an op is.
_PLACE = (
    "nn_module_stack",
    "stack_trace",
    "partitioner_tag",
    "seq_nr",
    "ac_graph_id",  # the checkpoint that it is in
    "recompute",  # and what the checkpoint's policy says
)


def place_of(node: fx.Node) -> dict[str, Any]:
    """Where in the program `node` is, as the metadata of another one."""
    return {key: node.meta[key] for key in _PLACE if key in node.meta}


def insert_call(node: fx.Node, op: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """A call where its graph inserts, with the place of `node` in the program and its own value."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def value(argument: Any) -> Any:
        return fx.map_arg(argument, lambda n: n.meta["val"])

    new = node.graph.call_function(op, args, kwargs)
    new.meta = place_of(node)
    # A number of the code beside a number has no tensor: then any of the graph's.
    known = itertools.chain(new.all_input_nodes, [node], node.graph.nodes)
    tensors = (tensor for n in known for tensor in tensors_of(n.meta.get("val")))
    mode = next((t.fake_mode for t in tensors if hasattr(t, "fake_mode")), FakeTensorMode())
    with mode, torch.no_grad():
        new.meta["val"] = op(*value(args), **value(kwargs))
    return new


def same_strides(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one shape lie alike, whatever strides sizes below 2 have."""
    lines = zip(one.shape, one.stride(), other.stride())
    return all(size < 2 or stride == found for size, stride, found in lines)


def laid_out(node: fx.Node, tensor: fx.Node, wanted: torch.Tensor) -> fx.Node:
    """`tensor` with the strides of `wanted`, of its shape: a copy at the place of `node` where they
    are others. Strides that leave gaps come from views, which keep theirs."""
    if same_strides(wanted, tensor.meta["val"]):
        return tensor
    dims = sorted(
        range(wanted.dim()), key=wanted.stride, reverse=True
    )  # stable, as memory has them
    ordered = wanted.permute(dims)
    if not ordered.is_contiguous():
        return tensor
    aten = torch.ops.aten
    copy = insert_call(node, aten.permute.default, tensor, dims)
    copy = insert_call(node, aten.clone.default, copy, memory_format=torch.contiguous_format)
    back = [dims.index(d) for d in range(len(dims))]
    return insert_call(node, aten.permute.default, copy, back)


def replace(node: fx.Node, new: Any) -> None:
    """Puts `new`, a value or one for each result of `node`, in its place, and erases it."""
    if isinstance(new, (tuple, list)):
        for user in list(node.users):  # each picks one result
            user.replace_all_uses_with(new[user.args[1]])
            node.graph.erase_node(user)
    else:
        node.replace_all_uses_with(new)
    node.graph.erase_node(node)

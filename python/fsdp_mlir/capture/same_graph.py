"""What of a step's graph depends on the code alone; whether two graphs say the same, and where they
begin not to."""

from __future__ import annotations

import itertools
import operator
from typing import Any, Iterator, Mapping, Optional

import torch
from torch import fx

from .known_values import StandIns, known_value, may_compute


def first_difference(
    one: fx.Graph, other: fx.Graph, tables: Optional[Mapping[fx.Node, torch.Tensor]] = None
) -> Optional[fx.Node]:
    """The first call that the graphs do not have in common, or None: they are the same.

    `tables` are placeholders of `other`, in graphs of Dynamo's, for constants that `one` may compute.
    """
    constants = (_constants(one, {}), _constants(other, tables)) if tables else ({}, {})
    for ours, theirs in itertools.zip_longest(*map(_calls, (one, other), constants)):
        if not (ours and theirs and ours[1:] == theirs[1:]):
            return (ours or theirs)[0]
    return None


def reads_known_numbers(graph: fx.Graph) -> bool:
    """Whether a number is read from a tensor whose value depends on the code alone."""
    known: dict[fx.Node, torch.Tensor] = {}
    for node in graph.nodes:
        if node.target is torch.ops.aten._local_scalar_dense.default and node.args[0] in known:
            return True
        value = _known(node, known)
        if value is not None:
            known[node] = value
    return False


def _constants(
    graph: fx.Graph, tables: Mapping[fx.Node, torch.Tensor]
) -> dict[fx.Node, torch.Tensor]:
    """The values in a graph of Dynamo's of what is computed of the code's numbers and `tables`."""
    found: dict[fx.Node, Any] = {}
    with StandIns() as mode, torch.no_grad():
        for node in graph.nodes:
            if node in tables:
                found[node] = mode.of_constant(tables[node])
            is_call = node.op in ("call_function", "call_method")
            if not is_call or not isinstance(node.meta.get("example_value"), torch.Tensor):
                continue
            if all(operand in found for operand in node.all_input_nodes):
                args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: found[n])
                is_method = node.op == "call_method"
                function = getattr(torch.Tensor, node.target) if is_method else node.target
                value = function(*args, **kwargs)
                if known_value(value) is not None:
                    found[node] = value
    return {node: known_value(value) for node, value in found.items()}


def _calls(
    graph: fx.Graph, constants: Mapping[fx.Node, torch.Tensor]
) -> Iterator[tuple[fx.Node, str, Any]]:
    """Each call of an op, what it calls, and with what, by number. What a step keeps of its own
    numbers, computed in one graph and read in another, is its value."""
    numbers: dict[fx.Node, Any] = {}
    known: dict[fx.Node, torch.Tensor] = {}
    count = itertools.count()
    for node in graph.nodes:
        if node.target is operator.getitem:
            # Results are taken apart in no certain order.
            numbers[node] = (numbers[node.args[0]], node.args[1])
            continue
        body = _attribute(node)
        if isinstance(body, fx.GraphModule):
            yield from _calls(body.graph, constants)
        value = constants.get(node)
        value = _known(node, known) if value is None else value
        if value is not None and value.layout == torch.strided:
            known[node] = value
            flat = torch.empty(value.numel(), dtype=value.dtype)
            content = flat.copy_(value.detach().reshape(-1)).view(torch.uint8)
            numbers[node] = (str(value.dtype), tuple(value.shape), content.numpy().tobytes())
            continue
        numbers[node] = next(count)
        arguments = fx.map_arg((node.args, node.kwargs), lambda n: numbers[n])
        yield node, str(node.target), repr(arguments)


def _attribute(node: fx.Node) -> Any:
    """What a node is of its graph's module, or None: it is no attribute of it."""
    return getattr(node.graph.owning_module, node.target) if node.op == "get_attr" else None


def _known(node: fx.Node, known: Mapping[fx.Node, torch.Tensor]) -> Optional[torch.Tensor]:
    """The value of a node that depends on the code alone; `known` has those before it."""
    if node.op == "get_attr":
        value = _attribute(node)
        return value if isinstance(value, torch.Tensor) else None
    operands = node.all_input_nodes
    if node.op != "call_function" or not all(operand in known for operand in operands):
        return None
    if not may_compute(node.target, bool(operands), node.meta.get("val")):
        return None
    with torch.no_grad():
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: known[n])
        return node.target(*args, **kwargs)

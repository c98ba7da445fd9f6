"""What of a step's graph depends on the code alone; whether two graphs say the same, and where they
begin not to."""

from __future__ import annotations

import itertools
import operator
from typing import Any, Iterator, Mapping, Optional, Sequence

import torch
from torch import fx

from .known_values import LARGEST, bytes_of, empty_as, is_factory, may_compute

_aten = torch.ops.aten
# What they read, or the size of their result, depends on the values of their first operand.
_READERS = (
    _aten._local_scalar_dense.default,
    _aten.nonzero.default,
    _aten.repeat_interleave.Tensor,
)


def first_difference(one: fx.Graph, other: fx.Graph) -> Optional[fx.Node]:
    """The first call that the graphs do not have in common, or None: they are the same."""
    for ours, theirs in itertools.zip_longest(_calls(one), _calls(other)):
        if not (ours and theirs and ours[1:] == theirs[1:]):
            return (ours or theirs)[0]
    return None


def reads_known_numbers(graph: fx.Graph, constants: Mapping[fx.Node, torch.Tensor]) -> bool:
    """Whether a number, or a size, is read from a tensor whose value depends on the code alone, or on
    those of its placeholders that are `constants`."""
    known = {node: value for node, value in constants.items() if value.numel() <= LARGEST}
    for node in graph.nodes:
        if any(operand in known for operand in _decides(node)):
            return True
        value = known[node] if node in known else _known(node, known)
        if value is not None:
            known[node] = value
    return False


def _decides(node: fx.Node) -> Sequence[Any]:
    """The operands whose values say what number a call reads, or what size its result has."""
    if node.target is _aten.masked_select.default:
        return node.args[1:]
    if node.target is _aten.index.Tensor:
        masks = (torch.bool, torch.uint8)
        return [i for i in node.args[1] if i is not None and i.meta["val"].dtype in masks]
    return node.args[:1] if node.target in _READERS else ()


def _calls(graph: fx.Graph) -> Iterator[tuple[fx.Node, str, Any]]:
    """Each call of an op, what it calls, and with what, by number. What is computed of the code's own
    numbers is its value."""
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
            yield from _calls(body.graph)
        value = _known(node, known)
        if value is not None and value.layout == torch.strided:
            known[node] = value
            numbers[node] = (str(value.dtype), tuple(value.shape), bytes_of(value))
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
    operands = {operand: known.get(operand) for operand in node.all_input_nodes}
    if node.op != "call_function":
        return None
    if is_factory(node.target):  # of which operands are the shape alone
        operands = {n: empty_as(n.meta.get("val")) for n in operands}
    if any(value is None for value in operands.values()):
        return None
    if not may_compute(node.target, bool(operands), node.meta.get("val")):
        return None
    with torch.no_grad():
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: operands[n])
        return node.target(*args, **kwargs)

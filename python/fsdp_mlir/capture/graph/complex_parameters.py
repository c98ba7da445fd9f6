"""Brings the complex tensors of a captured graph into the form in which they are held.

The graph takes pairs of numbers (step/pairs.py) and looks at them by `view_as_complex`, which moves
nothing. It gives gradients and updates of buffers in pairs as well: conjugate Wirtinger derivatives,
as autograd has them, are added over ranks and used by optimizers number by number.
"""

from __future__ import annotations

import torch
from torch import fx

from ...step.names import StateNames
from ...step.pairs import is_held_in_pairs
from .nodes import insert_call
from .program import Program

aten = torch.ops.aten


def hold_in_pairs(program: Program, names: StateNames) -> None:
    """Rewrites the arguments of `program` that are held in pairs, and what it gives of them."""
    held = {
        fqn
        for tensors in (names.parameters, names.buffers, names.constants)
        for fqn, tensor in tensors.items()
        if is_held_in_pairs(tensor)
    }
    for argument in program.arguments:
        if argument.fqn in held:
            _read_from_pairs(argument.node)
    for result in program.results:
        if result.role in ("gradient", "buffer_update") and result.fqn in held:
            result.node = _give_in_pairs(result.node)
            if result.role == "gradient":
                result.node.meta["partitioner_tag"] = "is_backward"


def _read_from_pairs(node: fx.Node) -> None:
    value = node.meta["val"]
    with value.fake_mode, torch.no_grad():
        node.meta["val"] = torch.view_as_real(value)
    # Each use has a view of its own, where it is used: one for all would hold on to the gathered
    # parameter between them.
    for user in list(node.users):
        with node.graph.inserting_before(user):
            view = _call_at(user, aten.view_as_complex.default, node)
        user.replace_input_with(node, view)


def _give_in_pairs(node: fx.Node) -> fx.Node:
    if node.meta["val"].is_conj():
        with node.graph.inserting_after(node):
            # Pairs are what lies in memory, where the conjugate is not yet computed.
            resolved = _call_at(node, aten.clone.default, node)
        node = resolved
    with node.graph.inserting_after(node):
        pairs = _call_at(node, aten.view_as_real.default, node)
    return pairs


def _call_at(place: fx.Node, op: torch._ops.OpOverload, argument: fx.Node) -> fx.Node:
    """A call at the place of another node, whose checkpoint's policy does not mean it."""
    call = insert_call(place, op, argument)
    call.meta.pop("recompute", None)
    return call

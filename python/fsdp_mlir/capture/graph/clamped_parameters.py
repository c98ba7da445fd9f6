"""Trained parameters that a step keeps between bounds in place, as `self.scale.data.clamp_(0, 4.6)`.

What the step computes reads the clamped parameter, so that the optimizer may clamp it first in its own
update: then it is eager's, and the step changes no parameter.
"""

from __future__ import annotations

from typing import Any, Collection, Optional, Sequence

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput, TangentAOTInput

from ...errors import E, ExportError
from .nodes import arguments_of, refusal
from .program import Bounds, Clamp, Program

_aten = torch.ops.aten
_CLAMPS = (_aten.clamp.default, _aten.clamp_min.default, _aten.clamp_max.default)
_SAME = (_aten.clone.default, _aten.detach.default, _aten.alias.default)


def clamp_of(changed: fx.Node) -> Optional[Clamp]:
    """The clamp whose result the step leaves in a parameter; None where it leaves something else, or
    reads the parameter as it was before."""
    found: set[tuple[Any, Any]] = set()
    node = changed
    while node.target in (*_CLAMPS, *_SAME):
        if node.target in _CLAMPS:
            values = arguments_of(node)
            found.add((values.get("min"), values.get("max")))
        node = node.args[0]
        if len(node.users) > 1:
            return None
    if node.op != "placeholder" or len(found) != 1:  # the same ones, where a module is run twice
        return None
    ((low, high),) = found
    if not all(bound is None or isinstance(bound, (int, float)) for bound in (low, high)):
        return None
    return Clamp((low, high), changed)


def without_gradients_of_clamps(graph: fx.Graph, output: fx.Node) -> None:
    """Leaves out of gradients what follows from the parameter that the step leaves: the loss alone has
    a gradient."""
    changes = {d: node for d, node in zip(output.meta["desc"], output.args[0])}
    for node in graph.find_nodes(op="placeholder"):
        descriptor = node.meta["desc"]
        if not isinstance(descriptor, TangentAOTInput) or len(node.users) != 1:
            continue
        change, (user,) = changes.get(descriptor.output), node.users
        is_change = isinstance(descriptor.output, InputMutationAOTOutput)
        if is_change and user.target is _aten.add.Tensor and clamp_of(change) is not None:
            (rest,) = (n for n in user.args if n is not node)
            user.replace_all_uses_with(rest)
            graph.erase_node(user)
            graph.erase_node(node)


def clamped_in_steps(training: Sequence[Program], updated: Collection[str]) -> dict[str, Bounds]:
    """The bounds of each parameter that steps clamp.

    Args:
        training: the programs of all steps.
        updated: the parameters that each step updates by an optimizer.

    Raises:
        ExportError: some steps do not clamp it so, or do not update it.
    """
    clamped: dict[str, Bounds] = {}
    for program in training:
        for fqn, clamp in program.clamped.items():
            all_alike = all(
                fqn in other.clamped and other.clamped[fqn].bounds == clamp.bounds
                for other in training
            )
            if not all_alike or fqn not in updated:
                raise changed_in_place(fqn, clamp.node)
            clamped[fqn] = clamp.bounds
    return clamped


def changed_in_place(fqn: str, node: fx.Node) -> ExportError:
    """The error that a step changes a parameter which is trained."""
    return refusal(
        E.CHANGED_IN_PLACE,
        node,
        f"the step changes the parameter {fqn} in place, and a trained one changes by "
        "the optimizer alone; change it in the step() of a subclass of the optimizer, "
        "behind super().step(). One that nothing trains, as a teacher's, freeze by "
        "requires_grad_(False); where the first batch alone changes it, run the model on one "
        "before the TrainingStep is made",
    )

"""Trained parameters that a step sets in place, as `self.scale.data.clamp_(0, 4.6)`, or a weight that
its module normalises before it reads it.

Where what a step sets follows from the parameter alone, and the step reads the parameter as it leaves
it, the optimizer may set it first in its own update: then it is eager's, and the step changes no
parameter.
"""

from __future__ import annotations

from typing import Any, Collection, Mapping, Optional, Sequence

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput, TangentAOTInput

from ...errors import E, ExportError
from .nodes import refusal
from .program import Program, Setting
from .same_graph import first_difference

_aten = torch.ops.aten
_SAME = (_aten.clone.default, _aten.detach.default, _aten.alias.default)
# Random values of such sizes say whether to set a parameter twice is to set it once.
_SCALES = (0.01, 1.0, 100.0)
_ROUNDINGS = 100


def setting_of(changed: fx.Node, of: Any) -> Optional[Setting]:
    """What sets the parameter whose descriptor is `of`, and of which the step leaves `changed`; None
    where other values decide it, or where the step reads the parameter as it was before."""
    found, left = {changed}, [changed]
    while left:
        new = set(left.pop().all_input_nodes) - found
        found |= new
        left += new
    parameter, *calls = (node for node in changed.graph.nodes if node in found)
    is_it = parameter.op == "placeholder" and parameter.meta["desc"] == of
    if not is_it or any(node.op != "call_function" for node in calls):
        return None
    follows = {parameter}
    for node in calls:
        if not follows.isdisjoint(node.all_input_nodes):
            follows.add(node)
    if any(node is not changed and not found.issuperset(node.users) for node in follows):
        return None
    graph = fx.Graph()
    copies = {parameter: graph.placeholder("parameter")}
    for node in calls:
        same = _same_as(node)
        copies[node] = copies[same] if same else graph.node_copy(node, copies.__getitem__)
    graph.output(copies[changed])
    graph.eliminate_dead_code()
    return Setting(fx.GraphModule(torch.nn.Module(), graph), changed)


def _same_as(node: fx.Node) -> Optional[fx.Node]:
    """What has the same values; None where the call computes others."""
    if node.target in _SAME:
        return node.args[0]
    if node.target is _aten.copy.default:
        to, source = (operand.meta["val"] for operand in node.args[:2])
        return node.args[1] if (to.shape, to.dtype) == (source.shape, source.dtype) else None
    return None


def without_gradients_of_settings(graph: fx.Graph, results: fx.Node) -> None:
    """Leaves out of gradients what follows from the parameter that the step leaves: the loss alone has
    a gradient."""
    changes = {d: node for d, node in zip(results.meta["desc"], results.args[0])}
    for node in graph.find_nodes(op="placeholder"):
        descriptor = node.meta["desc"]
        if not isinstance(descriptor, TangentAOTInput) or len(node.users) != 1:
            continue
        output, (user,) = descriptor.output, node.users
        if not isinstance(output, InputMutationAOTOutput) or user.target is not _aten.add.Tensor:
            continue
        if setting_of(changes[output], output.mutated_input) is not None:
            (rest,) = (n for n in user.args if n is not node)
            user.replace_all_uses_with(rest)
            graph.erase_node(user)
            graph.erase_node(node)


def set_in_steps(
    training: Sequence[Program],
    evaluating: Sequence[Program],
    updated: Mapping[str, torch.Tensor],
    several_times: Collection[str],
) -> dict[str, Setting]:
    """What sets each parameter that steps set.

    Args:
        training: the programs of all steps.
        evaluating: those of evaluations.
        updated: the parameters that each of these steps updates by an optimizer.
        several_times: those of them that a step may set without an update.

    Raises:
        ExportError: some steps do not set it so, or do not update it; or it is set several times
            between two updates, and is another one then.
    """
    settings: dict[str, Setting] = {}
    programs = [*training, *evaluating]
    for program in programs:
        for fqn, setting in program.settings.items():
            alike = all(_is_alike(setting, other.settings.get(fqn)) for other in training)
            if not alike or fqn not in updated:
                raise changed_in_place(fqn, setting.node)
            once = fqn not in several_times and sum(fqn in p.settings for p in programs) == 1
            if not once and not _is_settled(setting, updated[fqn]):
                raise refusal(
                    E.CHANGED_IN_PLACE,
                    setting.node,
                    f"the step changes the parameter {fqn} in place, sets it several times between two "
                    "updates (as with accumulate, or in evaluations), and to another value each time; "
                    "change it in the step() of a subclass of the optimizer",
                )
            settings[fqn] = setting
    return settings


def _is_alike(setting: Setting, other: Optional[Setting]) -> bool:
    return other is not None and first_difference(setting.module.graph, other.module.graph) is None


def _is_settled(setting: Setting, parameter: torch.Tensor) -> bool:
    """Whether to set a parameter twice is to set it once, but for rounding: as its former update has
    left it, or as an evaluation has."""
    generator = torch.Generator().manual_seed(0)
    close = _ROUNDINGS * torch.finfo(parameter.dtype).eps
    for scale in _SCALES:
        value = scale * torch.randn(parameter.shape, generator=generator)
        once = setting.module(value.to(parameter.dtype))
        if not torch.allclose(setting.module(once), once, rtol=close, atol=close * scale):
            return False
    return True


def changed_in_place(fqn: str, node: fx.Node) -> ExportError:
    """The error that a step changes a parameter which is trained."""
    return refusal(
        E.CHANGED_IN_PLACE,
        node,
        f"the step changes the parameter {fqn} in place, and a trained one changes by "
        "the optimizer alone, or is set to what follows from it alone before it is read; change it in "
        "the step() of a subclass of the optimizer, behind super().step(), or compute what the step "
        "reads of it (`self.weight * self.mask`) and leave it as it is. One that nothing trains, as a teacher's, freeze by "
        "requires_grad_(False); where the first batch alone changes it, run the model on one "
        "before the TrainingStep is made",
    )

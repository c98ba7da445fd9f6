"""Trained parameters that a step sets in place, as `self.scale.data.clamp_(0, 4.6)`, or a weight that
its module normalises before it reads it.

Where what a step sets follows from the parameter alone, and the step reads the parameter as it leaves
it, the optimizer may set it first in its own update: then it is eager's, and the step changes no
parameter.
"""

from __future__ import annotations

from typing import Collection, Mapping, Optional, Sequence

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput, TangentAOTInput

from ...errors import E, ExportError
from .nodes import refusal
from .program import Program, Setting
from .same_graph import first_difference

_aten = torch.ops.aten
# Random values of such sizes say whether to set a parameter twice is to set it once.
_SCALES = (0.01, 1.0, 100.0)
_ROUNDINGS = 100


def setting_of(changed: fx.Node) -> Optional[Setting]:
    """What sets a parameter, of which the step leaves `changed`; None where other values decide it,
    or where the step reads the parameter as it was before."""
    order = {node: number for number, node in enumerate(changed.graph.nodes)}
    found, left = {changed}, [changed]
    while left:
        new = set(left.pop().all_input_nodes) - found
        found |= new
        left += new
    nodes = sorted(found, key=order.__getitem__)
    taken = [node for node in nodes if node.op != "call_function"]
    if len(taken) != 1 or taken[0].op != "placeholder":
        return None
    follows = {taken[0]}
    for node in nodes:
        if not follows.isdisjoint(node.all_input_nodes):
            follows.add(node)
    if any(node is not changed and not found.issuperset(node.users) for node in follows):
        return None
    graph = fx.Graph()
    copies = {taken[0]: graph.placeholder("parameter")}
    for node in nodes:
        if node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(copies[changed])
    return Setting(fx.GraphModule(torch.nn.Module(), graph), changed)


def without_gradients_of_settings(graph: fx.Graph, output: fx.Node) -> None:
    """Leaves out of gradients what follows from the parameter that the step leaves: the loss alone has
    a gradient."""
    changes = {d: node for d, node in zip(output.meta["desc"], output.args[0])}
    for node in graph.find_nodes(op="placeholder"):
        descriptor = node.meta["desc"]
        if not isinstance(descriptor, TangentAOTInput) or len(node.users) != 1:
            continue
        change, (user,) = changes.get(descriptor.output), node.users
        is_change = isinstance(descriptor.output, InputMutationAOTOutput)
        if is_change and user.target is _aten.add.Tensor and setting_of(change) is not None:
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
            once = fqn not in several_times and sum(fqn in p.settings for p in programs) == 1
            if not alike or fqn not in updated or not (once or _is_settled(setting, updated[fqn])):
                raise changed_in_place(fqn, setting.node)
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
        "the optimizer alone; change it in the step() of a subclass of the optimizer, "
        "behind super().step(). One that nothing trains, as a teacher's, freeze by "
        "requires_grad_(False); where the first batch alone changes it, run the model on one "
        "before the TrainingStep is made",
    )

"""The graph of forward and backward, as PyTorch gives it, read into a program."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Mapping

import torch
from torch import fx

from ..errors import E, ExportError
from ..step.names import StateNames
from .changed_parameters import FrozenParametersChanged
from .nodes import first_user, refusal, state_of
from .program import Argument, Program, Result


@dataclass
class JointGraph:
    """A graph of forward and backward.

    Attributes:
        module: owns the graph.
        states: role and name of each of the module's states.
        metrics: the names of what it gives beside the loss, in order.
    """

    module: fx.GraphModule
    states: Mapping[str, tuple[str, str]]
    metrics: list[str]


def describe(traced: JointGraph, name: str, inputs: list[str], names: StateNames) -> Program:
    """The program of a graph, whose arguments and results have descriptors.

    Raises:
        ExportError: one of them is none that a program can have.
        FrozenParametersChanged: it changes parameters that are to be buffers in `names`.
    """
    from torch._functorch._aot_autograd import descriptors as d

    joint, metrics = traced.module, traced.metrics
    program = Program(name, joint)

    def meaning(descriptor: Any) -> tuple[str, str]:
        if isinstance(descriptor, (d.ParamAOTInput, d.BufferAOTInput)):
            return traced.states[descriptor.target]
        if isinstance(descriptor, d.PlainAOTInput):
            return "input", inputs[descriptor.idx]
        if isinstance(descriptor, d.ViewBaseAOTInput):
            raise ExportError(
                E.CHANGED_IN_PLACE,
                f"the step changes in place the memory of {meaning(descriptor.base_of)[1]}, which "
                "is another tensor's too; make them one tensor",
            )
        raise ExportError(
            E.CAPTURE_FAILED, f"the graph takes {descriptor}, which cannot be exported"
        )

    output = next(node for node in joint.graph.nodes if node.op == "output")
    written = [m for m in output.meta["desc"] if isinstance(m, d.InputMutationAOTOutput)]
    buffers = (m.mutated_input for m in written if isinstance(m.mutated_input, d.BufferAOTInput))
    names.check_settled([meaning(buffer)[1] for buffer in buffers])
    changed: list[str] = []
    asked: list[Any] = []  # results of which it takes gradients
    read: dict[tuple[str, str], fx.Node] = {}  # parameters, buffers and constants
    for node in joint.graph.nodes:
        if node.op == "placeholder":
            descriptor = node.meta["desc"]
            if isinstance(descriptor, d.TangentAOTInput):
                program.arguments.append(Argument(node, "cotangent"))
                asked.append(descriptor.output)
                continue
            role, fqn = meaning(descriptor)
            if role in ("parameter", "buffer"):
                if (role, fqn) in read:  # by another tensor over the same memory
                    node.replace_all_uses_with(read[role, fqn])
                    continue
                read[role, fqn] = node
            program.arguments.append(Argument(node, role, fqn))
        elif node.op == "get_attr":
            value = getattr(joint, node.target)
            if not isinstance(value, torch.Tensor):
                op = first_user(node)
                raise refusal(
                    E.OPERATOR_REFUSED,
                    op,
                    f"the step uses a higher-order op ({op.target}), which cannot be exported; "
                    "write it as plain tensor code",
                )
            role, fqn = state_of(node, value, names)
            if role in ("parameter", "buffer"):
                raise refusal(
                    E.TENSOR_ELSEWHERE,
                    first_user(node),
                    f"the step reads {fqn} from somewhere else than its module; read it as an "
                    "attribute of the module",
                )
            if (role, fqn) in read:  # at several places
                node.replace_all_uses_with(read[role, fqn])
                continue
            read[role, fqn] = node
            program.arguments.append(Argument(node, role, fqn))
    roles = ["loss"] + ["output"] * len(metrics)
    for node, descriptor in zip(output.args[0], output.meta["desc"]):
        if node is None:
            continue
        if isinstance(descriptor, d.PlainAOTOutput):
            fqn = "" if descriptor.idx == 0 else metrics[descriptor.idx - 1]
            program.results.append(Result(node, roles[descriptor.idx], fqn))
        elif isinstance(descriptor, d.GradAOTOutput):
            role, fqn = meaning(descriptor.grad_of)
            if role == "parameter":
                program.results.append(Result(node, "gradient", fqn))
        elif isinstance(descriptor, d.InputMutationAOTOutput):
            role, fqn = meaning(descriptor.mutated_input)
            if role == "buffer":
                if names.buffers[fqn].numel() == 0:
                    _check_size(node, fqn, program)
                program.results.append(Result(node, "buffer_update", fqn))
            elif role == "parameter" and not names.parameters[fqn].requires_grad:
                changed.append(fqn)
            elif role == "parameter":
                raise refusal(
                    E.CHANGED_IN_PLACE,
                    node,
                    f"the step changes the parameter {fqn} in place, and a trained one changes by "
                    "the optimizer alone; change it in the step() of a subclass of the optimizer, "
                    "behind super().step()",
                )
            elif role != "input":
                shape = list(node.meta["val"].shape)
                raise refusal(
                    E.CHANGED_IN_PLACE,
                    node,
                    f"the step changes in place a tensor, or an array, of shape {shape} that is none of "
                    "the model's; make it a buffer of the model (register_buffer)",
                )
        else:
            raise ExportError(
                E.CAPTURE_FAILED, f"the graph returns {descriptor}, which cannot be exported"
            )
    if changed:
        raise FrozenParametersChanged(changed)
    if asked not in ([], [d.PlainAOTOutput(0)]):
        raise ExportError(
            E.CAPTURE_FAILED, f"the graph takes gradients of {asked}, and the loss alone has one"
        )
    # The loss first: it is what every reader looks for.
    order = {"loss": 0, "output": 1, "buffer_update": 2, "gradient": 3}
    program.results.sort(key=lambda result: order[result.role])
    return program


def _check_size(update: fx.Node, fqn: str, program: Program) -> None:
    """Raises ExportError where an operator may give elements to a buffer without any, as it takes the
    buffer beside tensors that have some: the observers of quantisation have the size that their
    first forward finds."""
    operator_call = update
    while operator_call.target is operator.getitem:
        operator_call = operator_call.args[0]
    taken = {a.node for a in program.arguments if (a.role, a.fqn) == ("buffer", fqn)}
    given = set(operator_call.all_input_nodes)
    sizes = [node.meta["val"].numel() for node in given if hasattr(node.meta.get("val"), "numel")]
    if taken & given and any(sizes):
        raise refusal(
            E.CHANGED_IN_PLACE,
            update,
            f"the buffer {fqn} has no elements, and the step writes into it: its size comes with the "
            "first forward, and a plan's sizes are static. Run the model once on a batch before the "
            "TrainingStep is made",
        )

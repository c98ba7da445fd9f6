"""The graph of forward and backward, as PyTorch gives it, read into a program."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Collection, Mapping

import torch
from torch import fx
from torch._functorch._aot_autograd import descriptors as d

from ...errors import E, ExportError, note
from ...step.names import StateNames
from ...step.places import at_line
from .changed_parameters import UntrainedParametersChanged
from .nodes import first_user, location, refusal, refused_higher_order, state_of
from .program import Argument, Program, Result
from .set_parameters import changed_in_place, setting_of, without_gradients_of_settings
from .tensors_of_others import what_is_changed


@dataclass(frozen=True)
class HasGradient:
    """Says of a result that it is whether the step gives an input a gradient, where values decide that.

    Attributes:
        of: the input's descriptor.
    """

    of: Any


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

    @property
    def changed(self) -> set[tuple[str, str]]:
        """Role and name of the states that it writes into."""
        states = (d.ParamAOTInput, d.BufferAOTInput)
        return {self.states[of.target] for _, of in self._changes if isinstance(of, states)}

    @property
    def constants(self) -> dict[fx.Node, str]:
        """The placeholders of tensors that are none of the model's, and their names."""
        return self._placeholders("constant")

    def sets_by(self, buffers: Collection[str]) -> bool:
        """Whether it writes into a parameter what it computes from one of these buffers."""
        nodes = [node for node, of in self._changes if isinstance(of, d.ParamAOTInput)]
        reached: set[fx.Node] = set()
        while nodes:
            node = nodes.pop()
            if node not in reached:
                reached.add(node)
                nodes += node.all_input_nodes
        named = self._placeholders("buffer")
        return any(named.get(node) in buffers for node in reached)

    @property
    def _changes(self) -> list[tuple[fx.Node, Any]]:
        """What it writes into its inputs, and the descriptor of each."""
        output = next(node for node in self.module.graph.nodes if node.op == "output")
        return [
            (node, meaning.mutated_input)
            for node, meaning in zip(output.args[0], output.meta["desc"])
            if isinstance(meaning, d.InputMutationAOTOutput)
        ]

    def _placeholders(self, role: str) -> dict[fx.Node, str]:
        """Those of the module's states with a role, and their names."""
        named = {}
        for node in self.module.graph.find_nodes(op="placeholder"):
            target = getattr(node.meta["desc"], "target", None)
            of, fqn = self.states.get(target, ("", ""))
            if of == role:
                named[node] = fqn
        return named


BATCH_WRITTEN = (
    "the step writes into its batch, and a plan leaves the tensors that it is given as they are: in "
    "eager mode a later step that is given the same ones finds what was written"
)


def describe(traced: JointGraph, name: str, inputs: list[str], names: StateNames) -> Program:
    """The program of a graph, whose arguments and results have descriptors.

    Raises:
        ExportError: one of them is none that a program can have.
        UntrainedParametersChanged: it changes parameters that are to be buffers in `names`.
    """
    return _Description(traced, name, inputs, names).program


class _Description:
    """What the arguments and results of a graph are."""

    def __init__(self, traced: JointGraph, name: str, inputs: list[str], names: StateNames) -> None:
        self.program = Program(name, traced.module)
        self._traced, self._inputs, self._names = traced, inputs, names
        self._read: dict[tuple[str, str], fx.Node] = {}  # parameters, buffers and constants
        self._changed: list[str] = []  # parameters that nothing trains
        output = next(node for node in traced.module.graph.nodes if node.op == "output")
        without_gradients_of_settings(traced.module.graph, output)
        changed_alone = _without_gradients_of_changes(traced.module.graph, output)
        # Of several programs, another one may train it.
        is_only = len(names.step.turns) == len(names.step.batches) == 1
        self._untrained = {self._meaning(p)[1] for p in changed_alone if is_only}
        names.check_settled(fqn for role, fqn in traced.changed if role == "buffer")
        differentiated: list[Any] = []
        for node in traced.module.graph.nodes:
            descriptor = node.meta["desc"] if node.op == "placeholder" else None
            if isinstance(descriptor, d.TangentAOTInput):
                self.program.arguments.append(Argument(node, "cotangent"))
                differentiated.append(descriptor.output)
            elif descriptor is not None:
                self._add_argument(node, *self._meaning(descriptor))
            elif node.op == "get_attr":
                self._add_constant(node)
        for node, descriptor in zip(output.args[0], output.meta["desc"]):
            if node is not None:
                self._add_result(node, descriptor)
        if self._changed:
            raise UntrainedParametersChanged(self._changed)
        if differentiated not in ([], [d.PlainAOTOutput(0)]):
            raise ExportError(
                E.CAPTURE_FAILED,
                f"the graph takes gradients of {differentiated}, and the loss alone has one",
            )
        # The loss first: it is what every reader looks for.
        order = {"loss": 0, "output": 1, "buffer_update": 2, "gradient": 3, "has_gradient": 4}
        self.program.results.sort(key=lambda result: order[result.role])

    def _meaning(self, descriptor: Any) -> tuple[str, str]:
        """Role and name of an input."""
        if isinstance(descriptor, (d.ParamAOTInput, d.BufferAOTInput)):
            return self._traced.states[descriptor.target]
        if isinstance(descriptor, d.PlainAOTInput):
            return "input", self._inputs[descriptor.idx]
        if isinstance(descriptor, d.ViewBaseAOTInput):
            raise ExportError(
                E.CHANGED_IN_PLACE,
                "the step changes in place the memory of "
                f"{self._meaning(descriptor.base_of)[1]}, which is another tensor's too; make them "
                "one tensor",
            )
        raise ExportError(
            E.CAPTURE_FAILED, f"the graph takes {descriptor}, which cannot be exported"
        )

    def _add_argument(self, node: fx.Node, role: str, fqn: str) -> None:
        """An argument of the program; a state that is read at several places, or by tensors over the
        same memory, is one."""
        first = node if role == "input" else self._read.setdefault((role, fqn), node)
        if first is node:
            self.program.arguments.append(Argument(node, role, fqn))
        else:
            node.replace_all_uses_with(first)

    def _add_constant(self, node: fx.Node) -> None:
        value = getattr(self._traced.module, node.target)
        if not isinstance(value, torch.Tensor):
            raise refused_higher_order(first_user(node))
        role, fqn = state_of(node, value, self._names)
        # The graph has no changes of a buffer that is read past the module.
        if role == "parameter" or (role, fqn) in self._traced.changed:
            raise refusal(
                E.TENSOR_ELSEWHERE,
                first_user(node),
                f"the step reads {fqn} from somewhere else than its module; read it as an "
                "attribute of the module",
            )
        self._add_argument(node, role, fqn)

    def _add_result(self, node: fx.Node, descriptor: Any) -> None:
        results = self.program.results
        if isinstance(descriptor, d.PlainAOTOutput):
            named = [("loss", ""), *(("output", metric) for metric in self._traced.metrics)]
            results.append(Result(node, *named[descriptor.idx]))
        elif isinstance(descriptor, d.GradAOTOutput):
            role, fqn = self._meaning(descriptor.grad_of)
            if role == "parameter":
                results.append(Result(node, "gradient", fqn))
        elif isinstance(descriptor, HasGradient):
            role, fqn = self._meaning(descriptor.of)
            if role == "parameter":
                results.append(Result(node, "has_gradient", fqn))
        elif isinstance(descriptor, d.InputMutationAOTOutput):
            self._add_change(node, descriptor.mutated_input)
        else:
            raise ExportError(
                E.CAPTURE_FAILED, f"the graph returns {descriptor}, which cannot be exported"
            )

    def _add_change(self, node: fx.Node, of: Any) -> None:
        """What the step writes into one of its inputs."""
        role, fqn = self._meaning(of)
        if role == "buffer":
            if self._names.buffers[fqn].numel() == 0:
                _check_size(node, fqn, self.program)
            self.program.results.append(Result(node, "buffer_update", fqn))
        elif role == "parameter" and (
            # Without a gradient an optimizer leaves it alone, as it does a frozen one.
            not self._names.parameters[fqn].requires_grad
            or fqn in self._untrained
        ):
            self._changed.append(fqn)
        elif role == "parameter":
            setting = setting_of(node, of)
            if setting is None:
                raise changed_in_place(fqn, node)
            self.program.settings[fqn] = setting
        elif role == "input":
            note(at_line(location(node), BATCH_WRITTEN))
        else:
            raise refusal(E.CHANGED_IN_PLACE, node, what_is_changed(node.meta["val"].shape))


def _without_gradients_of_changes(graph: fx.Graph, output: fx.Node) -> list[Any]:
    """Leaves out the gradients that parameters have by what the step makes of them alone, and not by
    the loss; the descriptors of these parameters."""
    own = {
        node: node.meta["desc"].output.mutated_input
        for node in graph.find_nodes(op="placeholder")
        if isinstance(node.meta["desc"], d.TangentAOTInput)
        and isinstance(node.meta["desc"].output, d.InputMutationAOTOutput)
    }
    alone = {
        node: descriptor.grad_of
        for node, descriptor in zip(output.args[0], output.meta["desc"])
        if node in own and descriptor == d.GradAOTOutput(own[node]) and len(node.users) == 1
    }
    output.args = ([None if node in alone else node for node in output.args[0]],)
    for node in alone:
        graph.erase_node(node)
    return list(alone.values())


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

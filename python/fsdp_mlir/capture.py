"""Captures a training step as one graph of ATen ops, forward and backward.

Two tools of PyTorch do the work: `dynamo_graph_capture_for_export` follows the Python code and
gives the forward graph, `aot_export_joint_with_descriptors` differentiates it. Between the two,
every tensor the graph reads is named: a parameter, a buffer, an input, or else a constant.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from .capture_context import SharedForward, capture_settings, eval_mode
from .checkpoints import forwards_in_checkpoints
from .eager_kernels import eager_interpolation, eager_strides
from .errors import ExportError
from .explain import explain_capture_error, user_location
from .mixed_precision import MixedPrecision
from .names import StateNames
from .training_step import TrainingStep


@dataclass
class Argument:
    """An argument of a program: what it holds, by the role and name it has in the archive."""

    node: fx.Node
    role: str
    fqn: str = ""


@dataclass
class Result:
    """A result of a program: `node` is what the graph returns there."""

    node: fx.Node
    role: str
    fqn: str = ""


@dataclass
class Program:
    """A graph whose nodes are ATen ops, with the meaning of its arguments and results."""

    name: str
    module: fx.GraphModule  # owns the graph: without it the nodes are gone
    arguments: list[Argument] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    @property
    def graph(self) -> fx.Graph:
        return self.module.graph


class _Loss(torch.nn.Module):
    """The function that is captured: loss and metrics of one batch, given in order of `names`."""

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[..., Any],
        metrics: Optional[Callable[..., Any]],
        names: tuple[str, ...],
        shared: SharedForward,
    ) -> None:
        super().__init__()
        self.model = model
        self.loss_function = loss
        self.metrics_function = metrics
        self.names = names
        self.shared = shared

    def forward(self, *batch: torch.Tensor) -> tuple[Any, Any]:
        inputs = dict(zip(self.names, batch))
        loss = self.loss_function(self.model, **inputs)
        if self.metrics_function is None:
            return loss, {}
        self.shared.in_metrics = True
        # Metrics see the forward's values but give no gradient. The copy keeps a metric that is
        # a view of another result from being returned as an alias of it.
        values = self.metrics_function(self.model, **inputs)
        return loss, {name: value.detach().clone() for name, value in values.items()}


def capture(step: TrainingStep, name: str, names: StateNames, precision: MixedPrecision) -> Program:
    """Captures the program `name`: `step`, or `eval` (model in eval(), forward only).

    Constants that the graph reads are added to `names`. The model is read, never copied; its mode
    is what it was when this returns.

    Raises:
        ExportError: the step cannot be captured, with the user's line and the way to mend it.
    """
    training = name == "step"
    inputs = _separate(step.inputs)
    shared = SharedForward()
    wrapper = _Loss(step.model, step.loss, step.metrics, tuple(inputs), shared)
    # In training, the mode the user left the model in: single layers may be in eval() on purpose.
    mode = contextlib.nullcontext() if training else eval_mode(step.model)
    gradients = torch.enable_grad() if training else torch.no_grad()
    stand_in_mode = FakeTensorMode(allow_non_fake_inputs=True) if names.on_meta else None
    fake_mode = names.fake_mode or stand_in_mode or contextlib.nullcontext()
    if stand_in_mode is not None:
        inputs = {name: stand_in_mode.from_tensor(tensor) for name, tensor in inputs.items()}
    sharing = shared.of(step.model) if step.metrics else contextlib.nullcontext()
    kernels, strides = eager_interpolation(), eager_strides()
    stand_ins = names.captured_on(stand_in_mode)
    casts = precision.applied(step.model, shared if step.metrics else None)
    checkpoints = forwards_in_checkpoints(step.model)
    with contextlib.ExitStack() as stack:
        # What stands in for a parameter on meta has the dtype that its unit computes in.
        ways = (mode, gradients, checkpoints, casts, stand_ins, sharing, kernels, strides)
        for context in ways:
            stack.enter_context(context)
        try:
            forward = _follow_python(wrapper, tuple(inputs.values()))
            module, states, outputs = _name_states(forward, inputs, names)
            _check_outputs(outputs, step)
            joint = _differentiate(stack, module, tuple(inputs.values()), fake_mode)
        except ExportError:
            raise
        except Exception as error:
            raise explain_capture_error(error, wrapper, inputs) from error
    metric_names = list(outputs[1])
    program = _describe(joint, name, list(inputs), states, metric_names, names)
    if training and not any(result.role == "gradient" for result in program.results):
        raise ExportError(
            "the loss reaches no trainable parameter; check that the loss uses the model's output "
            "and that parameters have requires_grad"
        )
    return program


def _separate(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """`inputs` with a copy of every tensor that shares its storage with an earlier one.

    Capture would take one tensor given under two names for one input, and feed later batches to
    only one of the names.
    """
    seen: set[int] = set()
    separate: dict[str, torch.Tensor] = {}
    for name, tensor in inputs.items():
        storage = tensor.untyped_storage()._cdata
        separate[name] = _copy(tensor) if storage in seen else tensor
        seen.add(storage)
    return separate


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the strides of `tensor`: a matrix product's last bits depend on them."""
    if torch._debug_has_internal_overlap(tensor) == 1:  # expanded: elements that are one
        return tensor.detach().clone()
    strided = {"dtype": tensor.dtype, "device": tensor.device}
    copy = torch.empty_strided(tensor.shape, tensor.stride(), **strided)
    return copy.copy_(tensor.detach())


def _follow_python(wrapper: _Loss, batch: tuple[torch.Tensor, ...]) -> fx.GraphModule:
    from torch._dynamo.functional_export import dynamo_graph_capture_for_export

    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as caught, capture_settings():
        warnings.simplefilter("always")
        forward = dynamo_graph_capture_for_export(wrapper)(*batch)
    for warning in caught:
        if "side effects happened" in str(warning.message):
            _warn_state(str(warning.message))
        elif issubclass(warning.category, UserWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return forward


# Of SharedForward, and of the casts at a unit's border.
_OUR_STATE = r"\.forward\.__closure__|\._border_(waiting|known|sharing)"


def _warn_state(message: str) -> None:
    """Names the modules whose Python state the forward changes, from PyTorch's own warning.

    Its sources read L['self']._modules['model']._modules['0'].calls; others are not the model's.
    """
    changed = []
    for source in re.findall(r'"([^"]+)"', message):
        path = re.sub(r"\._modules\['([^']+)'\]", r".\1", source)
        if path.startswith("L['self'].model") and not re.search(_OUR_STATE, path):
            changed.append("model" + path.removeprefix("L['self'].model"))
    if changed:
        warnings.warn(
            f"the forward changes Python state of {', '.join(changed)}, and the exported step keeps "
            "the value of now; what must change from step to step is a buffer changed in place"
        )


def _name_states(
    forward: fx.GraphModule, inputs: Mapping[str, torch.Tensor], names: StateNames
) -> tuple[fx.GraphModule, dict[str, tuple[str, str]], tuple[fx.Node, dict[str, fx.Node]]]:
    """Rebuilds `forward` as a module of the batch alone, all else under names of its own.

    Returns the module, the role and name of each of its attributes, and its outputs: loss and
    metrics.
    """
    batch = tuple(inputs.values())
    # Dynamo lifts everything the code reads into placeholders; this gives their tensors.
    values = forward._dynamo_bytecode_flatten(*batch)
    positions = {id(tensor): name for name, tensor in inputs.items()}
    root = torch.nn.Module()
    graph = fx.Graph()
    places = {name: graph.placeholder(f"input_{name}") for name in inputs}
    states: dict[str, tuple[str, str]] = {}
    copies: dict[fx.Node, fx.Node] = {}
    lifted = [node for node in forward.graph.nodes if node.op == "placeholder"]
    for node, value in zip(lifted, values):
        if id(value) in positions:
            copies[node] = places[positions[id(value)]]
            continue
        if not isinstance(value, torch.Tensor):
            raise ExportError(
                f"the step reads {node.name}, a {type(value).__name__}, as if it changed between "
                "steps; make it a tensor among the inputs, or a constant"
            )
        role, fqn = names.of(value)
        target = f"{role}_{len(states)}"
        if role == "parameter":
            root.register_parameter(target, value)
        else:
            root.register_buffer(target, value)
        states[target] = (role, fqn)
        copies[node] = graph.get_attr(target)
        copies[node].meta = dict(node.meta)
    for node in forward.graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op == "output":
            flat = node.args[0]
            break
        copies[node] = graph.node_copy(node, lambda n: copies[n])
        if node.op == "get_attr":
            _copy_attribute(forward, root, node)
    outputs = forward._dynamo_bytecode_unflatten(tuple(flat), batch)
    loss, metrics = outputs
    metrics = metrics if isinstance(metrics, dict) else {}
    if isinstance(loss, fx.Node):
        example = loss.meta.get("example_value")
        copy = copies[loss]
        if loss.op == "placeholder" or (example is not None and example._is_view()):
            # A result that is a view of another value would be returned as both.
            copy = graph.call_function(torch.clone, (copy,))
            copy.meta = {k: v for k, v in loss.meta.items() if k != "example_value"}
        results = [copy] + [copies[m] for m in metrics.values() if isinstance(m, fx.Node)]
        graph.output(tuple(results))
    else:
        graph.output(())
    module = fx.GraphModule(root, graph)
    module.meta = {k: v for k, v in forward.meta.items() if k in ("fake_mode", "tracing_context")}
    return module, states, outputs


def _copy_attribute(source: torch.nn.Module, target: torch.nn.Module, node: fx.Node) -> None:
    value = source
    for part in node.target.split("."):
        value = getattr(value, part)
    if isinstance(value, torch.nn.Module):
        if all(
            user.target is torch.ops.higher_order.tag_activation_checkpoint for user in node.users
        ):
            # The body of a checkpoint: differentiating follows it, and leaves its mark on each op.
            setattr(target, node.target, value)
            return
        trace = next((u.meta["stack_trace"] for u in node.users if "stack_trace" in u.meta), "")
        where = user_location(trace)
        raise ExportError(
            f"{where + ': ' if where else ''}the step uses a higher-order op (torch.cond, a "
            "scan or the like), which cannot be exported; write it as plain tensor code"
        )
    if node.target not in dict(target.named_buffers()):
        target.register_buffer(node.target, value)


def _check_outputs(outputs: tuple[Any, Any], step: TrainingStep) -> None:
    loss, metrics = outputs
    if not isinstance(loss, fx.Node):
        what = type(loss).__name__
        raise ExportError(
            f"loss returns {what}, which does not depend on the step's tensors; return the scalar "
            "loss tensor itself"
        )
    named = {"loss": loss, **{f"metric {name}": value for name, value in metrics.items()}}
    for name, node in named.items():
        if not isinstance(node, fx.Node):
            raise ExportError(f"{name} does not depend on the step; leave it out")
        value = node.meta.get("example_value")
        if value is None:
            continue
        if value.dim() != 0:
            raise ExportError(
                f"{name} has shape {list(value.shape)}; return a scalar, such as its mean()"
            )
        if name == "loss" and not value.dtype.is_floating_point:
            dtype = str(value.dtype).removeprefix("torch.")
            raise ExportError(f"loss is {dtype}; return a floating-point scalar")


def _differentiate(
    stack: contextlib.ExitStack,
    module: fx.GraphModule,
    batch: tuple[torch.Tensor, ...],
    fake_mode: Any,
) -> fx.GraphModule:
    from torch._subclasses.fake_tensor import FakeTensor
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
    from torch._guards import tracing

    stack.enter_context(tracing(module.meta.get("tracing_context")))
    stack.enter_context(fake_mode)
    # An input that the loss does not use has not been seen yet: its sizes are static too.
    mode = module.meta["fake_mode"]
    batch = tuple(
        tensor if isinstance(tensor, FakeTensor) else mode.from_tensor(tensor, static_shapes=True)
        for tensor in batch
    )
    return aot_export_joint_with_descriptors(stack, module, batch).graph_module


def _describe(
    joint: fx.GraphModule,
    name: str,
    inputs: list[str],
    states: Mapping[str, tuple[str, str]],
    metrics: list[str],
    names: StateNames,
) -> Program:
    """Reads the descriptors of the joint graph's arguments and results."""
    from torch._functorch._aot_autograd import descriptors as d

    program = Program(name, joint)

    def meaning(descriptor: Any) -> tuple[str, str]:
        if isinstance(descriptor, (d.ParamAOTInput, d.BufferAOTInput)):
            return states[descriptor.target]
        if isinstance(descriptor, d.PlainAOTInput):
            return "input", inputs[descriptor.idx]
        raise ExportError(f"the graph takes {descriptor}, which cannot be exported")

    output = next(node for node in joint.graph.nodes if node.op == "output")
    for node in joint.graph.nodes:
        if node.op == "placeholder":
            descriptor = node.meta["desc"]
            if isinstance(descriptor, d.TangentAOTInput):
                program.arguments.append(Argument(node, "cotangent"))
            else:
                program.arguments.append(Argument(node, *meaning(descriptor)))
        elif node.op == "get_attr":
            role, fqn = names.of(getattr(joint, node.target))
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
                program.results.append(Result(node, "buffer_update", fqn))
            elif role != "input":
                raise ExportError(
                    f"the step changes the {role} {fqn} in place; only buffers may change in the "
                    "forward (register_buffer)"
                )
        else:
            raise ExportError(f"the graph returns {descriptor}, which cannot be exported")
    # The loss first: it is what every reader looks for.
    order = {"loss": 0, "output": 1, "buffer_update": 2, "gradient": 3}
    program.results.sort(key=lambda result: order[result.role])
    return program

"""Captures a training step as one graph of ATen ops, forward and backward.

Two tools of PyTorch do the work: Dynamo follows the Python code and gives the forward graph,
`aot_export_joint_with_descriptors` differentiates it. Where Dynamo cannot follow, the code itself
runs in the graph's place. Every tensor the graph reads is named: a parameter, a buffer, an input,
or else a constant.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, Sequence

import torch
from torch import fx
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from .activation_checkpoints import forwards_in_checkpoints
from .batch_norm import cumulative_averages
from .changed_parameters import FrozenParametersChanged
from .complex_parameters import hold_in_pairs
from .context import SharedForward, eval_mode, said_to_compile
from .custom_operators import bodies_say_shapes, inline_custom_operators
from .dynamo import follow
from .eager_kernels import eager_interpolation, eager_results
from ..step.eager_only import no_backward
from ..errors import E, ExportError, note
from .general_sizes import general_sizes
from .explain import ON_VALUES, explain_capture_error, located, raised_by_step, user_location
from .known_values import StandIns
from .library_defaults import every_layer, note_unchecked, padded_targets
from .library_defaults import static_experts, unchecked_distributions
from .mixed_precision import MixedPrecision
from .nodes import refusal
from ..step.names import StateNames
from .python_state import PythonState
from .region_pooling import tensor_code_of_torchvision
from .sequences import static_sequences
from .sparse import dense_gradients
from .mask_rules import rule_of
from .memory_orders import hold_row_major
from .static_sizes import make_static
from .torchscript_code import plain_torchscript
from .running import RunStep, run_and_differentiate
from ..step.programs import StepProgram
from ..step.training_step import TrainingStep
from ..step.turns import Turn


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
    """The function that is captured: the loss of one batch, given in order of `names`, and its
    metrics and outputs by name.

    Of several turns, which are evaluated at once, the loss is the sum of theirs, and what each one
    gives has the turn's name behind its own.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        turns: Sequence[Turn],
        outputs: Optional[Callable[..., Any]],
        names: tuple[str, ...],
        shared: SharedForward,
    ) -> None:
        super().__init__()
        self.model = model
        self.loss_functions = [turn.loss for turn in turns]
        self.metrics_functions = [turn.metrics for turn in turns]
        self.outputs_function = outputs
        self.suffixes = [f".{turn.name}" if len(turns) > 1 else "" for turn in turns]
        self.names = names
        self.shared = shared

    def forward(self, *batch: torch.Tensor) -> tuple[Any, Any]:
        inputs = dict(zip(self.names, batch))
        losses = [function(self.model, **inputs) for function in self.loss_functions]
        results: dict[str, Any] = {}
        # They see the forward's values but give no gradient. The copy keeps one that is a view of
        # another result from being returned as an alias of it.
        if len(losses) > 1:
            for suffix, value in zip(self.suffixes, losses):
                results[f"loss{suffix}"] = value.detach().clone()
        for suffix, function in zip(
            (*self.suffixes, ""), (*self.metrics_functions, self.outputs_function)
        ):
            if function is None:
                continue
            self.shared.in_metrics = True
            for name, value in function(self.model, **inputs).items():
                if name + suffix in results:
                    raise ExportError(
                        E.STEP_RESULT, f"metrics and outputs both return {name}; rename one of them"
                    )
                results[name + suffix] = value.detach().clone()
        whole = losses[0]
        for loss in losses[1:]:
            whole = whole + loss
        return whole, results


def capture(
    step: TrainingStep, wanted: StepProgram, names: StateNames, precision: MixedPrecision
) -> Program:
    """Captures a program of `step`.

    Constants that the graph reads are added to `names`. The model is read, never copied; its mode
    is what it was when this returns.

    Raises:
        ExportError: the step cannot be captured, with the user's line and the way to mend it.
        FrozenParametersChanged: it changes parameters that are to be buffers in `names`.
    """
    training = wanted.trains
    inputs = _separate(wanted.inputs)
    shared = SharedForward()
    outputs = None if training else step.outputs
    wrapper = _Loss(step.model, wanted.turns, outputs, tuple(inputs), shared)
    others = outputs or any(turn.metrics for turn in wanted.turns)
    # In training, the mode the user left the model in: single layers may be in eval() on purpose.
    mode = wanted.turns[0].alone(step.model) if training else eval_mode(step.model)
    gradients = torch.enable_grad() if training else torch.no_grad()
    meta_mode = FakeTensorMode(allow_non_fake_inputs=True) if names.on_meta else None
    fake_mode = names.fake_mode or meta_mode or contextlib.nullcontext()
    if meta_mode is not None:
        inputs = {name: meta_mode.from_tensor(tensor) for name, tensor in inputs.items()}
    sharing = shared.of(step.model) if others else contextlib.nullcontext()
    stand_ins = names.captured_on(meta_mode)
    casts = precision.applied(step.model, shared if others else None)
    checkpoints = forwards_in_checkpoints(step.model)
    with contextlib.ExitStack() as stack:
        # What stands in for a parameter on meta has the dtype that its unit computes in.
        ways = (mode, gradients, checkpoints, casts, stand_ins, sharing)
        kernels = (
            eager_interpolation(),
            eager_results(),
            static_sequences(),
            cumulative_averages(),
            general_sizes(),
            tensor_code_of_torchvision(),
            plain_torchscript(step.model),
            bodies_say_shapes(),
            dense_gradients(),
        )
        libraries = (unchecked_distributions(), static_experts(step.model), padded_targets())
        for context in (*ways, *kernels, *libraries, every_layer(step.model), no_backward()):
            stack.enter_context(context)
        samples = None if outputs is None else step.batch_size
        traced = _trace(wrapper, inputs, names, fake_mode, samples)
    inline_custom_operators(traced.joint)
    make_static(traced.joint, rule_of)
    if training:
        note_unchecked(traced.joint.graph)
    program = _describe(traced, wanted.name, list(inputs), names)
    hold_row_major(program, names)
    hold_in_pairs(program, names)
    if training and not any(result.role == "gradient" for result in program.results):
        of = f" of {wanted.turn}" if wanted.turn else ""
        held = " of its optimizer" if wanted.turn else ""
        raise ExportError(
            E.NO_GRADIENT,
            f"the loss{of} reaches no trainable parameter{held}; check that the loss uses the "
            "model's output and that parameters have requires_grad",
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


@dataclass
class _Traced:
    """A joint graph, role and name of each of its module's states, and the metrics' names."""

    joint: fx.GraphModule
    states: Mapping[str, tuple[str, str]]
    metrics: list[str]


def _trace(
    loss: _Loss,
    inputs: Mapping[str, torch.Tensor],
    names: StateNames,
    fake_mode: Any,
    samples: Optional[int],
) -> _Traced:
    """The joint graph of a step: as Dynamo follows it, or else as it runs. `samples` of a batch,
    where results may be of each."""
    constants = len(names.constants)
    try:
        return _by_dynamo(loss, inputs, names, fake_mode, samples)
    except ExportError:
        raise
    except Exception as error:
        followed = error
    state = PythonState(loss)
    with contextlib.ExitStack() as stack:
        stack.callback(state.restore)
        own = raised_by_step(loss, inputs)
        refusal = explain_capture_error(followed, own)
        if own is not None and not isinstance(own, ON_VALUES):
            raise refusal from followed
        # Libraries look at fewer values where they are said to compile.
        ways = itertools.product((False, True), (contextlib.nullcontext, said_to_compile))
        for sizes_by_values, compiles in ways:
            state.restore()
            names.forget_constants(constants)
            try:
                with compiles():
                    traced = _by_running(
                        loss, inputs, names, fake_mode, state, samples, sizes_by_values
                    )
                break
            except ExportError as error:
                raise located(error) from error
            except ON_VALUES as error:
                failure = error
            except GuardOnDataDependentSymNode as error:
                refusal = explain_capture_error(error, own)
            except Exception as error:
                raise explain_capture_error(error, None) from error
        else:
            raise refusal if own is not None else explain_capture_error(failure, None)
    refusal = explain_capture_error(followed, None if isinstance(own, ON_VALUES) else own)
    note(
        f"{refusal.where}Dynamo cannot follow the step ({refusal.reason}), which was captured by "
        "running it: what its Python code decides stays as it is now"
    )
    return traced


def _by_dynamo(
    loss: _Loss,
    inputs: Mapping[str, torch.Tensor],
    names: StateNames,
    fake_mode: Any,
    samples: Optional[int],
) -> _Traced:
    module, states, (value, metrics) = follow(loss, inputs, names)
    _check_outputs(value, metrics, samples)
    batch = tuple(inputs.values())
    with contextlib.ExitStack() as stack:
        stack.enter_context(tracing(module.meta.get("tracing_context")))
        stack.enter_context(fake_mode)
        # An input that the loss does not use has not been seen yet: its sizes are static too.
        joint = _differentiate(stack, module, batch, module.meta["fake_mode"])
    return _Traced(joint, states, list(metrics))


def _by_running(
    loss: _Loss,
    inputs: Mapping[str, torch.Tensor],
    names: StateNames,
    fake_mode: Any,
    state: PythonState,
    samples: Optional[int],
    sizes_by_values: bool,
) -> _Traced:
    step = RunStep(loss, names)

    def trace(step: torch.nn.Module, batch: tuple[torch.Tensor, ...]) -> fx.GraphModule:
        with contextlib.ExitStack() as stack:
            mode = fake_mode if isinstance(fake_mode, FakeTensorMode) else StandIns(sizes_by_values)
            stack.enter_context(mode)
            joint = _differentiate(stack, step, batch, mode)
        _check_outputs(*step.outputs, samples)
        return joint

    joint = run_and_differentiate(step, tuple(inputs.values()), state, trace)
    for place in step.checks:
        note(f"{place}: a check of values is left out of the exported step")
    return _Traced(joint, step.states, list(step.outputs[1]))


def _check_outputs(loss: Any, metrics: Mapping[str, Any], samples: Optional[int]) -> None:
    if not isinstance(loss, torch.Tensor):
        what = type(loss).__name__
        raise ExportError(
            E.STEP_RESULT,
            f"loss returns {what}, which does not depend on the step's tensors; return the scalar "
            "loss tensor itself",
        )
    what = "metric" if samples is None else "output"
    if "loss" in metrics:
        raise ExportError(
            E.STEP_RESULT, f"{what}s returns loss, which is the loss's own name; call it another"
        )
    named = {"loss": loss, **{f"{what} {name}": value for name, value in metrics.items()}}
    for name, value in named.items():
        if not isinstance(value, torch.Tensor):
            raise ExportError(E.STEP_RESULT, f"{name} does not depend on the step; leave it out")
        if value.dim() != 0 and (samples is None or name == "loss"):
            raise ExportError(
                E.STEP_RESULT,
                f"{name} has shape {list(value.shape)}; return a scalar, such as its mean()",
            )
        if value.dim() != 0 and value.shape[0] != samples:
            raise ExportError(
                E.STEP_RESULT,
                f"{name} has shape {list(value.shape)}; dimension 0 of what outputs return is the "
                f"sample, and a batch has {samples}",
            )
        if name == "loss" and not value.dtype.is_floating_point:
            dtype = str(value.dtype).removeprefix("torch.")
            raise ExportError(E.STEP_RESULT, f"loss is {dtype}; return a floating-point scalar")


def _differentiate(
    stack: contextlib.ExitStack,
    module: torch.nn.Module,
    batch: tuple[torch.Tensor, ...],
    mode: FakeTensorMode,
) -> fx.GraphModule:
    batch = tuple(
        tensor if isinstance(tensor, FakeTensor) else mode.from_tensor(tensor, static_shapes=True)
        for tensor in batch
    )
    return aot_export_joint_with_descriptors(stack, module, batch).graph_module


def _describe(traced: _Traced, name: str, inputs: list[str], names: StateNames) -> Program:
    """Reads the descriptors of the joint graph's arguments and results."""
    from torch._functorch._aot_autograd import descriptors as d

    joint, metrics = traced.joint, traced.metrics
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
    changed: list[str] = []
    for node in joint.graph.nodes:
        if node.op == "placeholder":
            descriptor = node.meta["desc"]
            if isinstance(descriptor, d.TangentAOTInput):
                program.arguments.append(Argument(node, "cotangent"))
            else:
                program.arguments.append(Argument(node, *meaning(descriptor)))
        elif node.op == "get_attr":
            value = getattr(joint, node.target)
            if not isinstance(value, torch.Tensor):
                op = next(iter(node.users))
                where = user_location(op.meta.get("stack_trace") or "")
                raise ExportError(
                    E.OPERATOR_REFUSED,
                    f"{where + ': ' if where else ''}the step uses a higher-order op ({op.target}), "
                    "which cannot be exported; write it as plain tensor code",
                )
            role, fqn = names.of(value)
            if role in ("parameter", "buffer"):
                raise ExportError(
                    E.TENSOR_ELSEWHERE,
                    f"the step reads {fqn} from somewhere else than its module; read it as an "
                    "attribute of the module",
                )
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
            elif role == "parameter" and not names.parameters[fqn].requires_grad:
                changed.append(fqn)
            elif role != "input":
                raise refusal(
                    E.CHANGED_IN_PLACE,
                    node,
                    f"the step changes the {role} {fqn} in place; only buffers and frozen "
                    "parameters may change in the forward (register_buffer)",
                )
        else:
            raise ExportError(
                E.CAPTURE_FAILED, f"the graph returns {descriptor}, which cannot be exported"
            )
    if changed:
        raise FrozenParametersChanged(changed)
    # The loss first: it is what every reader looks for.
    order = {"loss": 0, "output": 1, "buffer_update": 2, "gradient": 3}
    program.results.sort(key=lambda result: order[result.role])
    return program

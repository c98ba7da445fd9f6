"""Captures a training step as one graph of ATen ops, forward and backward.

Two tools of PyTorch do the work: Dynamo follows the Python code and gives the forward graph,
`aot_export_joint_with_descriptors` differentiates it. Where Dynamo cannot follow, the code itself
runs in the graph's place. Every tensor the graph reads is named: a parameter, a buffer, an input,
or else a constant.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from typing import Any, Callable, Mapping, Optional, Sequence

import torch
from torch import fx
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from .autocast import autocast_of_the_cpu
from .activation_checkpoints import forwards_in_checkpoints
from .batch_norm import cumulative_averages
from .both_ways import BothWays, without_loss
from .between_steps import other_numbers, say_kept, states_unread
from .complex_parameters import hold_in_pairs
from .context import SharedForward, eval_mode, inference_without_gradients, said_to_compile
from .counts import counts_of_known_size
from .custom_operators import bodies_say_shapes, inline_custom_operators
from .dynamo import NotFollowed, follow
from .eager_kernels import eager_interpolation, eager_results
from .encoder_layers import encoder_layers_by_parts
from ..step.eager_only import no_side_effects
from ..errors import E, ExportError, note
from .general_sizes import general_sizes
from .explain import ON_VALUES, Refusal, explain_capture_error, located, raised_by_step
from .inverse_stft import eager_inverse_stft
from .joint_graph import JointGraph, describe
from .kept_numbers import NumbersKept, kept_refusal
from .known_values import StandIns
from .lost_output import named_where_followed, named_where_run
from .library_defaults import choices_for_graphs, note_unchecked
from .mixed_precision import MixedPrecision
from ..step.names import StateNames, plain_path
from .product_dtypes import require_one_dtype
from .program import Program
from .python_state import PythonState
from .reached import Holder, Reached
from .region_pooling import tensor_code_of_torchvision
from .same_graph import first_difference, reads_known_numbers
from .sequences import static_sequences
from .sparse import dense_gradients, gradients_through_to_dense
from .mask_rules import rule_of
from .memory_orders import hold_row_major
from .static_sizes import make_static
from .step_loss import StepLoss, check_outputs
from .torchscript_code import plain_torchscript
from .running import RunStep, run_and_differentiate
from ..step.programs import StepProgram
from ..step.training_step import TrainingStep


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
    wrapper = StepLoss(step.model, wanted.turns, outputs, tuple(inputs), shared)
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
            eager_inverse_stft(),
            encoder_layers_by_parts(),
            static_sequences(),
            cumulative_averages(),
            general_sizes(),
            tensor_code_of_torchvision(),
            plain_torchscript(step.model),
            bodies_say_shapes(),
            dense_gradients(),
            gradients_through_to_dense(),
            inference_without_gradients(),
            counts_of_known_size(),
            autocast_of_the_cpu(),
        )
        for context in (*ways, *kernels, choices_for_graphs(step.model), no_side_effects()):
            stack.enter_context(context)
        samples = None if outputs is None else step.batch_size
        trace = functools.partial(_trace, wrapper, inputs, names, fake_mode, samples)
        trace = functools.partial(_trace_with_settled, trace, names)
        traced = _trace_with_holders(trace, Reached(wrapper).holders, names, step)
    _make_static(traced)
    require_one_dtype(traced.module.graph)
    if training:
        note_unchecked(traced.module.graph)
    program = describe(traced, wanted.name, list(inputs), names)
    hold_row_major(program, names)
    hold_in_pairs(program, names)
    if training and not any(result.role == "gradient" for result in program.results):
        of = f" of {wanted.turn}" if wanted.turn else ""
        held = " of its optimizer" if wanted.turn else ""
        raise ExportError(
            E.NO_GRADIENT,
            f"the loss{of} reaches no trainable parameter{held}; check that the loss uses the "
            "model's output, that no item(), detach() or no_grad() is in between, and that "
            "parameters have requires_grad",
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


def _trace_with_holders(
    trace: Callable[[], JointGraph],
    holders: Sequence[Holder],
    names: StateNames,
    step: TrainingStep,
) -> JointGraph:
    """What `trace` gives, told whether numbers of the optimizers and schedulers that the step
    reaches are in it."""
    if not holders:
        return trace()
    constants = len(names.constants)
    with states_unread(holders):
        with other_numbers(holders):
            other = trace()
        names.forget_constants(constants)
        traced = trace()
    node = first_difference(traced.module.graph, other.module.graph)
    if node is not None:
        say_kept(node, scheduled=step.lr_schedule is not None)
    return traced


def _trace_with_settled(trace: Callable[[], JointGraph], names: StateNames) -> JointGraph:
    """What `trace` gives. A step that cannot be captured but with the values of buffers, by which its
    code decides, is captured with those of now: they are settled in `names`, and no program may change
    them."""
    constants = len(names.constants)
    notes: list[str] = []
    while True:
        try:
            traced = trace()
            break
        except Refusal as refusal:
            asked = set(map(plain_path, refusal.buffers)) - names.settled.keys()
            if not asked:
                raise
            names.forget_constants(constants)
            names.settled.update(dict.fromkeys(asked, refusal))
            notes.append(
                f"{refusal.where}the step asks in Python what {' and '.join(sorted(asked))} holds, "
                "which no step changes: what it decides by that stays as it is now"
            )
    for text in notes:
        note(text)
    return traced


def _trace(
    loss: StepLoss,
    inputs: Mapping[str, torch.Tensor],
    names: StateNames,
    fake_mode: Any,
    samples: Optional[int],
) -> JointGraph:
    """The joint graph of a step: as Dynamo follows it, or else as it runs, with the values of those
    buffers alone that are settled in `names`. `samples` of a batch, where results may be of each.
    """
    constants = len(names.constants)
    try:
        if names.kept:
            raise NotFollowed("it keeps numbers in Python")
        with named_where_followed():
            traced = _by_dynamo(loss, inputs, names, fake_mode, samples)
        _require_numbers_of_values(traced)
        return traced
    except ExportError:
        raise
    except Exception as error:
        followed = error
    state = PythonState(loss)
    with contextlib.ExitStack() as stack:
        stack.callback(state.restore)
        stack.enter_context(named_where_run())
        own = raised_by_step(loss, inputs, settled=names.settled_buffers)
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
            except NumbersKept:
                raise
            except ON_VALUES as error:
                failure = error
            except GuardOnDataDependentSymNode as error:
                refusal = explain_capture_error(error, own)
            except Exception as error:
                raise explain_capture_error(error, None) from error
        else:
            state.restore()
            names.forget_constants(constants)
            try:
                traced = _by_running(
                    loss, inputs, names, fake_mode, state, samples, True, whole_numbers=True
                )
                _make_static(traced)
            except NumbersKept:
                raise
            except Exception:  # of whatever else stands in the way
                refusal = refusal if own is not None else explain_capture_error(failure, None)
                run = functools.partial(
                    _by_running, loss, inputs, names, fake_mode, state, samples, True
                )
                asked = set(map(plain_path, refusal.buffers)) - names.settled.keys()
                if names.kept or asked:  # numbers that it keeps, or buffers that may be settled
                    raise kept_refusal(refusal, names.kept) if names.kept else refusal
                return _both_ways(run, names, state, constants, own, refusal)
    if names.kept:
        return traced  # of which there is a note
    refusal = explain_capture_error(followed, None if isinstance(own, ON_VALUES) else own)
    note(
        f"{refusal.where}Dynamo cannot follow the step ({refusal.reason}), which was captured by "
        "running it: what its Python code decides stays as it is now"
    )
    return traced


def _both_ways(
    run: Callable[..., JointGraph],
    names: StateNames,
    state: PythonState,
    constants: int,
    own: Optional[Exception],
    refusal: Refusal,
) -> JointGraph:
    """The graph of a step that decides by values, of which `run` gives the way that it is told;
    `refusal` is what it is refused with where one cannot be captured."""

    def trace(whole_numbers: bool) -> JointGraph:
        state.restore()
        names.forget_constants(constants)
        try:
            traced = run(whole_numbers=whole_numbers)
        except ExportError as error:
            raise located(error) from error
        _make_static(traced)
        return traced

    for whole_numbers in (False, True):
        try:
            return BothWays(functools.partial(trace, whole_numbers)).traced()
        except ON_VALUES as error:
            refusal = explain_capture_error(error, error)
        except GuardOnDataDependentSymNode as error:
            refusal = explain_capture_error(error, own)
        except (ExportError, NumbersKept):
            raise
        except Exception as error:
            explained = explain_capture_error(error, None)
            raise refusal if explained.kind is E.CAPTURE_FAILED else explained from error
    raise refusal


def _require_numbers_of_values(traced: JointGraph) -> None:
    """Raises NotFollowed where a graph of Dynamo's cannot be made static and reads numbers or sizes
    from tensors that the code itself gives: these are known where the step runs."""
    if reads_known_numbers(traced.module.graph):
        try:
            _make_static(traced)
        except ExportError as error:
            raise NotFollowed("it reads numbers or sizes from tensors that it makes") from error


def _make_static(traced: JointGraph) -> None:
    """Gives a graph operators and sizes that a plan can have."""
    inline_custom_operators(traced.module)
    make_static(traced.module, rule_of)


def _by_dynamo(
    loss: StepLoss,
    inputs: Mapping[str, torch.Tensor],
    names: StateNames,
    fake_mode: Any,
    samples: Optional[int],
) -> JointGraph:
    module, states, (value, metrics) = follow(loss, inputs, names)
    check_outputs(value, metrics, samples)
    batch = tuple(inputs.values())
    with contextlib.ExitStack() as stack:
        stack.enter_context(tracing(module.meta.get("tracing_context")))
        stack.enter_context(fake_mode)
        # An input that the loss does not use has not been seen yet: its sizes are static too.
        joint = _differentiate(stack, module, batch, module.meta["fake_mode"])
    return JointGraph(joint, states, list(metrics))


def _by_running(
    loss: StepLoss,
    inputs: Mapping[str, torch.Tensor],
    names: StateNames,
    fake_mode: Any,
    state: PythonState,
    samples: Optional[int],
    sizes_by_values: bool,
    whole_numbers: bool = False,
) -> JointGraph:
    step = RunStep(loss, names, whole_numbers)

    def trace(step: RunStep, batch: tuple[torch.Tensor, ...]) -> fx.GraphModule:
        with contextlib.ExitStack() as stack:
            settled = [step.of(buffer) for buffer in names.settled_buffers]
            own_mode = StandIns(sizes_by_values, settled)
            mode = fake_mode if isinstance(fake_mode, FakeTensorMode) else own_mode
            stack.enter_context(mode)
            stack.enter_context(without_loss(step))
            joint = _differentiate(stack, step, batch, mode)
        check_outputs(*step.outputs, samples)
        return joint

    joint = run_and_differentiate(step, tuple(inputs.values()), state, trace)
    for place in step.checks:
        note(f"{place}: a check of values is left out of the exported step")
    return JointGraph(joint, step.states, list(step.outputs[1]))


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

"""Captures a training step as one graph of ATen ops, forward and backward.

`traced_step` gets the graph. Here is what holds while it does, and what the graph becomes: every
tensor that it reads is named, a parameter, a buffer, an input, or else a constant.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Callable, Mapping, Optional, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ..errors import E, ExportError, note
from ..step.eager_only import no_side_effects
from ..step.memory import storage_of
from ..step.names import SettledChanged, StateNames
from ..step.places import at_line, line_of_definition
from ..step.programs import StepProgram
from ..step.training_step import TrainingStep
from .between_steps import other_numbers, say_kept, states_unread
from .context import SharedForward, eval_mode, inference_without_gradients
from .explain import Refusal
from .graph.complex_parameters import hold_in_pairs
from .graph.joint_graph import JointGraph, describe
from .graph.memory_orders import hold_row_major
from .graph.product_dtypes import require_one_dtype
from .graph.program import Program
from .graph.same_graph import first_difference
from .graph.left_out import left_out_noted
from .graph.replayed_draws import refuse_replays, replays_found
from .mixed_precision import MixedPrecision
from .operators.activation_checkpoints import forwards_in_checkpoints
from .operators.autocast import autocast_of_the_cpu
from .operators.batch_norm import cumulative_averages
from .operators.best_boxes import boxes_by_masks
from .operators.collectives import Ranks
from .operators.checkpoint_reads import changed_reads_said
from .operators.counts import counts_of_known_size
from .operators.custom_operators import bodies_say_shapes
from .operators.eager_kernels import eager_interpolation, eager_results
from .operators.encoder_layers import encoder_layers_by_parts
from .operators.higher_order import higher_order_by_code
from .operators.inverse_stft import eager_inverse_stft
from .operators.library_defaults import choices_for_graphs, note_unchecked
from .operators.region_pooling import tensor_code_of_torchvision
from .operators.sequences import static_sequences
from .operators.sparse import (
    dense_gradients,
    gradients_through_to_dense,
    require_dense_constants,
)
from .operators.torchscript_code import plain_torchscript
from .operators.varlen_attention import packed_attention_by_masks
from .ranks import ranks_found, traced_for
from .state.reached import Holder, Reached
from .step_loss import ResultRefused, StepLoss
from .traced_step import traced_step, give_static_sizes
from .values.decisions import ValuesDecide
from .values.general_sizes import general_sizes


def capture(
    step: TrainingStep,
    wanted: StepProgram,
    names: StateNames,
    precision: MixedPrecision,
    ranks: Ranks,
) -> Program:
    """Captures a program of `step`.

    Constants that the graph reads are added to `names`, and `ranks` notes what the step asks of them. The
    model is read, never copied; its mode is what it was when this returns.

    Raises:
        ExportError: the step cannot be captured, with the user's line and the way to mend it.
        UntrainedParametersChanged: it changes parameters that are to be buffers in `names`.
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
            boxes_by_masks(),
            plain_torchscript(step.model),
            bodies_say_shapes(),
            dense_gradients(),
            gradients_through_to_dense(),
            inference_without_gradients(),
            counts_of_known_size(),
            autocast_of_the_cpu(),
            higher_order_by_code(),
            packed_attention_by_masks(),
        )
        said = left_out_noted(), changed_reads_said(), ranks_found(ranks)
        replays = stack.enter_context(replays_found())
        of_all = choices_for_graphs(step.model), no_side_effects(), *said
        for context in (*ways, *kernels, *of_all):
            stack.enter_context(context)
        samples = None if outputs is None else step.batch_size
        trace = functools.partial(traced_step, wrapper, inputs, names, fake_mode, samples)
        trace = functools.partial(_trace_with_settled, trace, names)
        again = functools.partial(names.forget_constants, len(names.constants))
        holders = Reached(wrapper).holders
        with_holders = functools.partial(_trace_with_holders, trace, holders, names, step)
        try:
            traced = traced_for(ranks, with_holders, again)
        except ResultRefused as refused:
            raise refused.at_its_line(step) from None
    refuse_replays(replays, traced.module.graph)
    give_static_sizes(traced)
    require_dense_constants(traced.module)
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
            at_line(
                line_of_definition(wanted.turns[0].loss),
                f"the loss{of} reaches no trainable parameter{held}; check that the loss uses the "
                "model's output, that no item(), detach() or no_grad() is in between, and that "
                "parameters have requires_grad",
            ),
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
        storage = storage_of(tensor)
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
    them. If this one does, it is captured without their values, whatever it decides by them; where that
    cannot be, it is refused."""
    constants = len(names.constants)
    own: dict[str, Refusal] = {}
    notes: dict[str, str] = {}
    decides: Optional[Refusal] = None
    while True:
        names.forget_constants(constants)
        try:
            traced = trace()
            changed = {fqn for _, fqn in traced.changed}
        except SettledChanged as early:
            (changed,) = early.args
            names.check_settled(changed - own.keys())
        except ExportError as error:
            asked = names.unsettled(error.buffers) if isinstance(error, Refusal) else set()
            if not asked:
                raise error if isinstance(error, ValuesDecide) else decides or error
            own.update(dict.fromkeys(asked, error))
            names.settled.update(own)
            for buffer in sorted(asked):
                text = (
                    f"the step asks in Python what {buffer} holds, which no step changes: what it "
                    "decides by that stays as it is now"
                )
                notes[buffer] = at_line(error.line, text)
            continue
        if decides and changed & names.trainable and traced.sets_by(names.deciding):
            raise decides
        deciding = sorted(own.keys() & changed)
        if not deciding:
            break
        decides = own[deciding[0]]
        names.deciding.update(deciding)
        for buffer in deciding:
            del own[buffer], names.settled[buffer], notes[buffer]
    for text in notes.values():
        note(text)
    return traced

"""The graph of a step, forward and backward: as Dynamo follows its code, or else as it runs.

Dynamo gives the forward graph, `aot_export_joint_with_descriptors` differentiates it. Where Dynamo
cannot follow, the code itself runs in the graph's place, and where it decides by values, once for
each way.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from typing import Any, Callable, Mapping, Optional

import torch
from torch import fx
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from ..errors import E, ExportError, note
from ..step.names import SettledChanged, StateNames
from ..step.places import at_line
from .context import compiled_code_by_itself, said_to_compile
from .dynamo import NotFollowed, follow
from .explain import Refusal, explain_capture_error, located
from .graph.joint_graph import JointGraph
from .graph.known_values import StandIns
from .graph.same_graph import reads_known_numbers
from .lost_output import named_where_followed, named_where_run
from .operators.custom_operators import inline_custom_operators
from .padding.rules import rule_of
from .padding.static_sizes import make_static
from .running import RunStep, run_and_differentiate
from .state.backward_updates import return_what_backward_writes
from .state.generators import held_by_torch
from .state.python_state import PythonState
from .state.reached import Reached
from .state.state_kept import StateKept, kept_refusal
from .state.trials import Trials
from .state.without_values import ON_VALUES, raised_by_step
from .step_loss import StepLoss, check_outputs
from .values.decisions import ValuesDecide
from .values.draws import Few, few
from .values.int_and_float import ReadByLibrary
from .values.python_numbers import Parts, parts
from .ways.both_ways import BothWays
from .ways.ways import without_loss


# Nobody runs the code of the graphs that PyTorch makes on the way, which for a large model takes seconds.
@_use_lazy_graph_module(True)
def traced_step(
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
        _require_numbers_of_values(traced, names)
        return traced
    except ExportError:
        raise
    except Exception as error:
        followed = error
    names.forget_constants(constants)
    with held_by_torch(Reached(loss).places):
        return _as_it_runs(loss, inputs, names, fake_mode, samples, followed)


def _as_it_runs(
    loss: StepLoss,
    inputs: Mapping[str, torch.Tensor],
    names: StateNames,
    fake_mode: Any,
    samples: Optional[int],
    followed: Exception,
) -> JointGraph:
    """The graph of a step that Dynamo does not follow, for which it gave the reason `followed`."""
    constants = len(names.constants)
    state = PythonState(loss)

    def run(sizes_by_values: bool, whole_numbers: bool = False) -> JointGraph:
        while True:
            state.restore()
            names.forget_constants(constants)
            with contextlib.suppress(ReadByLibrary):
                return _by_running(
                    loss, inputs, names, fake_mode, state, samples, sizes_by_values, whole_numbers
                )

    def trials(whole_numbers: bool) -> Trials:
        state.restore()
        return Trials(loss, inputs, names, whole_numbers)

    with contextlib.ExitStack() as stack:
        stack.callback(state.restore)
        stack.enter_context(named_where_run())
        stack.enter_context(compiled_code_by_itself())
        own = raised_by_step(loss, inputs, settled=names.settled_buffers)
        refusal = explain_capture_error(followed, own)
        if own is not None and not isinstance(own, ON_VALUES):
            raise refusal from followed
        # Libraries look at fewer values where they are said to compile.
        ways = itertools.product((False, True), (contextlib.nullcontext, said_to_compile))
        for sizes_by_values, compiles in ways:
            try:
                with compiles():
                    traced = run(sizes_by_values)
                break
            except ExportError as error:
                raise located(error) from error
            except StateKept:
                raise
            except ON_VALUES as error:
                failure = error
            except GuardOnDataDependentSymNode as error:
                refusal = explain_capture_error(error, own)
            except Exception as error:
                raise explain_capture_error(error, None) from error
        else:
            try:
                traced = _of_whole_numbers(run)
            except StateKept:
                raise
            except Exception:  # of whatever else stands in the way
                refusal = refusal if own is not None else explain_capture_error(failure, None)
                if names.unsettled(refusal.buffers):
                    raise refusal
                try:
                    return _both_ways(functools.partial(run, True), trials, own, refusal, names)
                except Refusal as error:
                    raise kept_refusal(error.line, names.kept) or error
    if names.kept:
        return traced  # of which there is a note
    refusal = explain_capture_error(followed, None if isinstance(own, ON_VALUES) else own)
    what = (
        f"Dynamo cannot follow the step ({refusal.reason}), which was captured by running it: what its "
        "Python code decides stays as it is now"
    )
    note(at_line(refusal.line, what))
    return traced


def _of_whole_numbers(run: Callable[..., JointGraph]) -> JointGraph:
    """The graph of a step that reads whole numbers. Where its code asks how many elements a part has, or
    an operator needs to know, parts are whole."""

    def static() -> JointGraph:
        traced = run(True, whole_numbers=True)
        give_static_sizes(traced)
        return traced

    with parts() as known:
        try:
            return static()
        except (ExportError, GuardOnDataDependentSymNode):
            if not known.were_met:
                raise
    with parts(are_whole=True):
        return static()


# How a step that decides by values is traced, in turn: whether whole numbers that it draws among a few are
# ways, whether those that it reads have symbols, and whether parts are whole.
_TAKEN = (
    (False, False, False),
    (False, True, False),
    (False, True, True),
    (True, False, False),
    (True, True, False),
    (True, True, True),
)


def _both_ways(
    run: Callable[..., JointGraph],
    trials: Callable[[bool], Trials],
    own: Optional[Exception],
    refusal: ExportError,
    names: StateNames,
) -> JointGraph:
    """The graph of a step that decides by values, of which `run` gives the way that it is told;
    `refusal` is what it is refused with where one cannot be captured.

    Raises:
        SettledChanged: one way, with which the others need not be captured.
    """

    def trace(whole_numbers: bool) -> JointGraph:
        try:
            traced = run(whole_numbers=whole_numbers)
        except ExportError as error:
            raise located(error) from error
        changed = names.settled.keys() & {fqn for _, fqn in traced.changed}
        if changed:
            raise SettledChanged(changed)
        give_static_sizes(traced)
        return traced

    part, drawn = Parts(), Few()
    for are_ways, whole_numbers, are_whole in _TAKEN:
        if are_ways and not drawn.were_drawn or are_whole and not part.were_met:
            continue
        try:
            ways = functools.partial(trace, whole_numbers), functools.partial(trials, whole_numbers)
            with parts(are_whole) as part, few(are_ways) as drawn:
                return BothWays(*ways).traced()
        except ON_VALUES as error:
            refusal = explain_capture_error(error, error)
        except GuardOnDataDependentSymNode as error:
            refusal = explain_capture_error(error, own)
        except ValuesDecide as error:
            if not whole_numbers and not drawn.were_drawn:
                raise
            refusal = error
        except (ExportError, StateKept, SettledChanged):
            raise
        except Exception as error:
            explained = explain_capture_error(error, None)
            raise refusal if explained.kind is E.CAPTURE_FAILED else explained from error
    raise refusal


def _require_numbers_of_values(traced: JointGraph, names: StateNames) -> None:
    """Raises NotFollowed where a graph of Dynamo's cannot be made static and reads numbers or sizes
    from tensors and arrays that the code itself gives: these are known where the step runs."""
    constants = {node: names.constants[fqn] for node, fqn in traced.constants.items()}
    if reads_known_numbers(traced.module.graph, constants):
        try:
            give_static_sizes(traced)
        except ExportError as error:
            raise NotFollowed("it reads numbers or sizes from tensors that it makes") from error


def give_static_sizes(traced: JointGraph) -> None:
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
    joint = aot_export_joint_with_descriptors(stack, module, batch).graph_module
    return_what_backward_writes(joint)
    return joint

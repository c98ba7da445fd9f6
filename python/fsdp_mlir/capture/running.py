"""Captures a step by running it, where Dynamo cannot follow its Python code.

The loss runs as it is, on tensors without values; autograd records it, and AOTAutograd what both
call. So each construct of Python and of autograd is what it is in eager mode. What Python decides
is frozen, though, and nothing says by what: the step is run again, and must be the same. To
differentiate it PyTorch runs it twice. Where both runs make the same calls, and leave nothing in Python
that matters to a later one, that says it; else it is differentiated again.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
from torch import fx
from torch.fx import traceback as fx_traceback
from torch.overrides import TorchFunctionMode

from ..errors import E, ExportError, note
from ..step.names import StateNames
from ..step.places import at_line, innermost, is_users, trace_of
from .graph.joint_graph import BATCH_WRITTEN
from .graph.known_values import is_factory, known_value
from .graph.nodes import first_user, refusal
from .graph.same_graph import first_difference
from .operators.activation_checkpoints import MarkedCheckpoints, checkpoints_by_mark
from .operators.checkpoint_reads import run_ended
from .state.answered_errors import none_answered
from .state.frozen_in_step import FrozenInStep
from .state.generators import Generators
from .state.late_decisions import numbers_to_keep
from .state.own_states import OwnStates
from .state.places import Place
from .state.python_state import PythonState, Slots, warn_changed
from .state.replaced_buffers import DataAssigned, NeedsCopies
from .state.same_calls import Calls, are_same
from .state.trials import Trials
from .state.what_matters import (
    check_shared,
    check_truths,
    keep_numbers,
    keep_tensors,
    what_matters,
)
from .values.decisions import asked, note_state
from .values.drawn_by_torch import drew_of_made, left_undrawn
from .values.python_floats import read_value
from .values.value_checks import passed_checks

_aten = torch.ops.aten
# So many changes of Python state are named in one message.
_MOST_NAMED = 3


class RunStep(torch.nn.Module):
    """The function of a batch that a step's loss is, with all states as its own.

    Attributes:
        states: role and name of each of its parameters and buffers.
        outputs: the loss and the metrics of the last run.
        begin: is called in front of each run.
        checks: where the last run checked values.
        frozen: names of the parameters that are frozen when a run begins.
        left_frozen: and when the last one has ended.
        names: of its states and constants.
        runs: the calls of each.
        kept: what the step keeps in Python, of which buffers of this module are the values.
        whole_numbers: whether those that are read from tensors have symbols, as sizes have.
    """

    def __init__(
        self, loss: torch.nn.Module, names: StateNames, whole_numbers: bool = False
    ) -> None:
        super().__init__()
        # Not a submodule: its tensors are this module's, each once.
        object.__setattr__(self, "_loss", loss)
        self._own = OwnStates(self, loss.model, names)
        self.states = self._own.states
        self.outputs: tuple[Any, Mapping[str, Any]] = (None, {})
        self.begin: Callable[[], None] = lambda: None
        self.runs: list[Calls] = []
        self.checks: list[str] = []
        self.frozen: frozenset[str] = frozenset()
        self.left_frozen: frozenset[str] = frozenset()
        self.names = names
        self.whole_numbers = whole_numbers
        self._written: set[int] = set()  # places in the batch
        self._checkpoints = MarkedCheckpoints()  # of the last run
        self._copies_saved = False  # in checkpoints
        self.kept = tuple(names.kept.values())
        self._found: list[tuple[Place, bool, Any]] = []  # before forward
        self._given: list[Any] = []  # by this module, in their places
        self._left: list[Any] = []  # there, after it
        for kept in self.kept:
            self._own.register(kept.tensor)

    def forward(self, *batch: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.put_back()
        self.begin()
        batch = tuple(t.clone() if n in self._written else t for n, t in enumerate(batch))
        with contextlib.ExitStack() as stack:
            stack.enter_context(fx_traceback.preserve_node_meta())
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "Anomaly Detection has been enabled")
            # Gives backward's ops the places of forward's.
            stack.enter_context(torch.autograd.detect_anomaly(check_nan=False))
            stack.enter_context(self._own.in_their_places())
            stack.enter_context(_module_paths(self._loss.model))
            self._checkpoints = stack.enter_context(checkpoints_by_mark(self._copies_saved))
            stack.enter_context(_Places())
            frozen = set(self.frozen)
            parameters, buffers = self._own.names("parameter"), self._own.names("buffer")
            stack.enter_context(FrozenInStep(parameters, self.names.trainable, frozen))
            stack.enter_context(DataAssigned({**parameters, **buffers}))
            checks = passed_checks(self.whole_numbers, {*parameters, *buffers})
            self.checks = stack.enter_context(checks)
            stack.enter_context(self._own_kept())
            with none_answered(), Calls() as calls:
                loss, metrics = self._loss(*batch)
                calls.end((loss, dict(metrics)))
            self.runs.append(calls)
            conditions = [question.condition for question in asked()]
            self.left_frozen = frozenset(frozen)
        replaced = [read_value(g) for g, left in zip(self._given, self._left) if left is not g]
        run_ended([*replaced, *self._own.replaced])
        self._check_written(batch)
        if self._checkpoints.data_read and self._copies_are_needed():
            raise NeedsCopies("what it writes into .data is another value in a checkpoint")
        self.outputs = loss, metrics
        if isinstance(loss, torch.Tensor) and loss._is_view():
            # A result that is a view of another value would be returned as both.
            loss = loss.clone()
        results = (loss, *metrics.values(), *conditions)
        return tuple(result for result in results if isinstance(result, torch.Tensor))

    def copies_saved_after(self, error: RuntimeError) -> bool:
        """Whether the next run copies what checkpoints save, for want of which this one has failed: eager
        mode computes it again, so that the step may write into what a checkpoint gives."""
        return "modified by an inplace operation" in str(error) and self._copies_are_needed()

    def _copies_are_needed(self) -> bool:
        """Whether the next run copies what checkpoints save, and this one has not."""
        if self._copies_saved or not self._checkpoints.marks:
            return False
        self._copies_saved = True
        return True

    @property
    def dropped(self) -> Mapping[str, ExportError]:
        """The names of buffers that hold nothing for the next step."""
        return self._own.dropped

    def trials(self, batch: Sequence[torch.Tensor]) -> Trials:
        """Trials of what this step does."""
        inputs = dict(zip(self._loss.names, batch))
        return Trials(self._loss, inputs, self.names, self.whole_numbers)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor that this module has for a tensor of the model."""
        return self._own.of(tensor)

    def _check_written(self, batch: Sequence[torch.Tensor]) -> None:
        """Raises NeedsCopies where the step has written what has a gradient into its batch."""
        written = {n for n, tensor in enumerate(batch) if tensor.grad_fn is not None}
        if not written <= self._written:
            note(BATCH_WRITTEN)
            self._written |= written
            raise NeedsCopies("it writes what has a gradient into its batch")

    @contextlib.contextmanager
    def _own_kept(self) -> Iterator[None]:
        """What this module has now in the places of what the step keeps, until
        `put_back`: the code of a backward pass reads what forward has left."""
        wholes = [kept.place.whole for kept in self.kept]
        self._found = [(whole, whole.is_set, whole.read()) for whole in wholes]
        own = [self._own.of(kept.tensor) for kept in self.kept]
        for kept, buffer in zip(self.kept, own):
            kept.give(buffer)
        self._given = [kept.place.read() for kept in self.kept]
        yield
        for kept, buffer in zip(self.kept, own):
            kept.take_over(buffer)
        self._left = [kept.place.read() for kept in self.kept]

    def put_back(self) -> None:
        """Leaves the model's tensors and what the step keeps as they were in front of it.

        Raises:
            ExportError: a backward pass has changed one, which the plan would lose.
        """
        self._own.put_back()
        found, left = self._found, self._left
        self._found, self._left = [], []
        changed = [
            kept.place.name
            for kept, value in zip(self.kept, left)
            if kept.place.read() is not value
        ]
        for whole, is_set, value in found:
            whole.put(value, is_set)
        if changed:
            raise ExportError(
                E.PYTHON_STATE,
                f"a backward pass changes {', '.join(changed)}, which the step keeps in "
                "Python and computes with; change it in forward, or make it a buffer",
            )


def run_and_differentiate(
    step: RunStep,
    batch: Sequence[torch.Tensor],
    state: PythonState,
    differentiate: Callable[..., fx.GraphModule],
) -> fx.GraphModule:
    """The joint graph of `step`, which `differentiate(module, batch)` traces.

    `state` is Python's before the step.

    Raises:
        ExportError: the step is another one each time that it runs.
        StateKept: it is so by numbers and tensors that it keeps.
    """

    def run() -> fx.GraphModule:
        try:
            while True:
                step.runs.clear()
                try:
                    # The next run has the copies. The warning would stand in front of an error of ours.
                    with contextlib.suppress(NeedsCopies), warnings.catch_warnings():
                        warnings.filterwarnings("ignore", "Error detected in ")
                        return differentiate(step, batch)
                except RuntimeError as error:
                    if not step.copies_saved_after(error):
                        raise
        finally:
            step.put_back()

    generators = Generators(state.generators)
    # Differentiating runs it more than once: each time from where a first step begins.
    step.begin = state.restore
    if step.kept:
        check_shared(step.trials(batch))
    first = run()
    _check_dropped(step, first, batch)
    changed, numbers = state.changed(), state.numbers()
    matters: Slots = []
    if changed:
        note_state()
        check_truths(step._loss, numbers)
        left, tensors = state.left(), state.tensors()
        state.restore()
        trials = step.trials(batch)
        matters = what_matters(left, numbers, trials)
        if matters is left:
            keep_tensors(trials, tensors, numbers)
        if trials.read_later is not None:
            what = (
                f"a later step computes with what moves through {', '.join(changed[:_MOST_NAMED])}, Python "
                "state that the step changes; keep tensors alone there, or make it a buffer"
            )
            raise ExportError(E.PYTHON_STATE, at_line(trials.read_later, what))
        for slot, value in matters:
            known = known_value(value)
            slot.put(value if known is None else known)
    state.settle_numbers()
    second = first
    # Where nothing matters that a step leaves, the next one begins as both of these runs did.
    if matters or step.frozen != step.left_frozen or not are_same(step.runs):
        step.begin, step.frozen = PythonState(step._loss).restore, step.left_frozen
        second = run()
    if (generator := generators.drawn_from() or drew_of_made()) is not None:
        what = (
            f"the step draws random numbers from {generator}, of which each step would get the same; "
            "draw them with torch, or by another function of random or numpy.random under its name in "
            "a module (random.uniform, not one that an object or a variable keeps), and give a "
            "library's module such a function in the place of its own (library.random = lambda: "
            "torch.rand(()).item())"
        )
        raise ExportError(
            E.PYTHON_STATE, at_line(left_undrawn() or generators.line_of_draw(run), what)
        )
    if numbers and first_difference(first.graph, second.graph) is not None:
        keep_numbers(numbers, trials)
    _check_same(first, second, changed)
    if changed:
        state.restore()
        kept = numbers_to_keep(trials)
        if kept:
            keep_numbers(kept, trials)
        warn_changed(changed, is_seen=kept is not None)
    return first


def _check_dropped(step: RunStep, traced: fx.GraphModule, batch: Sequence[torch.Tensor]) -> None:
    """Raises the refusal of a buffer that holds nothing for the next step, where that reads it."""
    dropped = step.dropped
    if not dropped:
        return
    inputs = traced.graph.find_nodes(op="placeholder")
    for node in inputs:
        error = dropped.get(getattr(node.meta["desc"], "target", None))
        if error is not None and _is_read(node):
            raise error
    step.begin()
    trials = step.trials(batch)
    if not trials.are_alike():
        raise next(iter(dropped.values()))
    warn_changed([f"model.{step.states[target][1]}" for target in dropped])


def _is_read(node: fx.Node) -> bool:
    """Whether its values are, or those of a copy; and not its shape alone."""
    users = [user for user in node.users if not is_factory(user.target)]
    return any(user.target is not _aten.clone.default or _is_read(user) for user in users)


def _check_same(first: fx.GraphModule, second: fx.GraphModule, changed: Sequence[str]) -> None:
    node = first_difference(first.graph, second.graph)
    if node is None:
        return
    others = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
    named = f" ({', '.join(changed[:_MOST_NAMED])}{others})" if changed else ""
    begins = f" (from {node.target} on)" if node.op == "call_function" else ""
    raise refusal(
        E.PYTHON_STATE,
        first_user(node) if node.op == "placeholder" else node,
        f"the step is another one the second time that it runs{begins}: it depends on Python state "
        f"that it changes{named}; make that state a buffer, or leave it out; where the first batch alone "
        "changes it, run the model on one before the TrainingStep is made",
    )


class _Places(TorchFunctionMode):
    """Notes the user's line of each call, for the ops that it becomes."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        frame = innermost(sys._getframe(1), is_users)
        if frame is not None:
            fx_traceback.current_meta["stack_trace"] = trace_of(frame)
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _module_paths(model: torch.nn.Module) -> Iterator[None]:
    """Notes the module whose forward runs, for the ops that it becomes."""
    from torch.nn.modules import module as modules

    paths = {module: path for path, module in model.named_modules()}
    entered: list[Any] = []

    def note(path: str) -> None:
        fx_traceback.current_meta["nn_module_stack"] = {path: (f"model.{path}".rstrip("."), "")}

    def enter(module: torch.nn.Module, args: Any) -> None:
        if module in paths:
            entered.append(fx_traceback.current_meta.get("nn_module_stack"))
            note(paths[module])

    def leave(module: torch.nn.Module, args: Any, output: Any) -> None:
        if module in paths:
            fx_traceback.current_meta["nn_module_stack"] = entered.pop()

    before = modules.register_module_forward_pre_hook(enter)
    after = modules.register_module_forward_hook(leave, always_call=True)
    try:
        yield
    finally:
        before.remove()
        after.remove()

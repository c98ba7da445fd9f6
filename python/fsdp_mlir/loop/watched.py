"""Notices what a script does with its model while a run trains, which the run cannot follow."""

from __future__ import annotations

import dataclasses
import os
import sys
import warnings
import weakref
import zlib
from typing import Any, Callable, Iterator, Optional

import torch

from .. import package
from ..errors import E, RunError
from ..step.held_tensors import HeldTensors, version_of
from ..step.memory import is_freed
from ..step.names import plain_path
from ..step.optimizer_list import parts_of
from ..step.pairs import as_pairs_of
from ..step.places import PYTORCH, at_line, in_short, innermost, own_line
from ..step.training_step import TrainingStep
from .compiled_values import CompiledValues
from .run_state import own_part
from .watched_modules import WatchedModules
from .watched_units import WatchedUnits

# Whose code lies between what reads a tensor and what is told of it.
_BETWEEN = (package.FOLDER, os.path.join(PYTORCH, "_dynamo"))
_CLIPPING = os.path.join(PYTORCH, "nn", "utils", "clip_grad.py")
# What fails where no parameter has a gradient, by an error that does not say so.
_NEEDS_GRADIENTS = {
    (_CLIPPING, "clip_grad_value_"): "give TrainingStep clip_grad_value= and leave the call out",
    (os.path.join(PYTORCH, "amp", "grad_scaler.py"), "_unscale_grads_"): (
        "give TrainingStep scaler= and leave the scaler out of the loop"
    ),
}


@dataclasses.dataclass(slots=True)
class _Watched:
    """A parameter or a buffer of the model, as it was at the last check.

    Attributes:
        owner, is_parameter, key: the module that has it, as what, and its name there.
        bytes: a sum of its bytes, until the first step: a write to `p.data` has no version. From
            then on, who reads `p.data` is told of.
    """

    name: str
    owner: weakref.ref[torch.nn.Module]
    is_parameter: bool
    key: str
    state: weakref.ref[torch.Tensor]
    trainable: bool
    version: int
    bytes: Optional[int]

    def now(self, owner: torch.nn.Module) -> Optional[torch.Tensor]:
        """What is at its place in `owner` now."""
        return (owner._parameters if self.is_parameter else owner._buffers).get(self.key)

    def is_written(self, state: torch.Tensor) -> bool:
        """Whether `state`, which is at its place now, was written to since the last check, or put
        there."""
        if self.bytes is None and self.version and self.state() is state:
            if self.version == state._version:  # nearly always
                return False
        version, had_bytes = version_of(state), self.bytes
        self.bytes = None
        if self.state() is not state or self.version != version:
            self.state, self.version = weakref.ref(state), version
            return True
        return had_bytes is not None and had_bytes != _sum_of_bytes(state)


class WatchedModel:
    """Watches the model that a run was compiled from. The script may still hold it; the run does not."""

    def __init__(self, step: TrainingStep) -> None:
        self._watched = list(_states(step.model))
        # Scripts of several losses freeze and release each turn's parameters in every step.
        self._may_freeze = len(step.turns) > 1
        self._held = HeldTensors(
            [state for watched in self._watched if (state := watched.state()) is not None],
            self._values_are_read,
            self._gradient_is_read,
        )
        self._compiled = CompiledValues(step)
        self._units, self._modules = WatchedUnits(step.model), WatchedModules(step)
        self._step, self._arguments = weakref.ref(step), _arguments(step)
        self._inputs = [(name, weakref.ref(x), version_of(x)) for name, x in step.inputs.items()]
        self._has_states: Optional[bool] = None  # before the first step
        self._watch_states(step)
        self._run: Any = lambda: None
        self._said: set[str] = set()

    def _watch_states(self, step: TrainingStep) -> None:
        this = weakref.ref(self)

        def hook(optimizer: torch.optim.Optimizer) -> None:
            if (watching := this()) is not None:
                watching._states_are_read(optimizer)

        for optimizer in parts_of(step.optimizer):
            handle = optimizer.register_state_dict_pre_hook(hook)
            weakref.finalize(self, handle.remove).atexit = False

    def follow(self, run: "weakref.ref[Any]") -> None:
        """Compares with what this run has, where the script uses the model."""
        self._run = run

    def check(self, session: Any) -> None:
        """Raises RunError where a parameter was frozen, or released, since the step was compiled,
        or a unit made or given what changes numbers. Warns, once each, where the script wrote a
        value that differs from the run's into a parameter or a buffer, where it changed what the
        step reads in Python, and of hints to units."""
        self._check_units()
        written: dict[str, torch.Tensor] = {}
        gone = None
        with torch._C.DisableTorchFunctionSubclass():
            for watched in self._watched:
                if (owner := watched.owner()) is None:  # the whole model may be gone
                    continue
                if (state := watched.now(owner)) is None:
                    gone = gone or watched.name
                    continue
                if state.requires_grad != watched.trainable and not self._may_freeze:
                    raise _refusal(watched)
                if watched.is_written(state):
                    written[watched.name] = state
                    self._held.add(state)
            if "compiled" not in self._said:
                self._check_compiled()
            if "arguments" not in self._said:
                self._check_arguments()
            self._check_modules(gone)
            if not written or "written" in self._said:
                return
            name = _first_that_differs(written, session, lambda name: True)
        if name is not None:
            self._warn(
                "written",
                f"{name} of the model was written to after the step was compiled, and the run "
                "trains values of its own: run.load_state_dict(model.state_dict()) gives it these, "
                "and run.copy_to(model) gives the model the run's; what the step decides in Python "
                "by a buffer stays as it was until it is compiled anew",
            )

    def _check_compiled(self) -> None:
        if (changed := self._compiled.changed()) is not None:
            self._warn(
                "compiled",
                f"{changed}, and the run goes on with what it was compiled for: make a number that "
                "changes an input of the step, a tensor without dimensions beside the batch; for "
                "another mode of a module, compile the step anew, and give that run this one's "
                "state_dict(optimizer=True)",
            )

    def is_copied_to(self, model: torch.nn.Module) -> None:
        """Takes the values of `model` for the run's, which has just given it these."""
        self._agree(set(map(id, (*model.parameters(), *model.buffers()))))

    def run_is_given(self, session: Any) -> None:
        """Takes the model's values for the run's, which has got some, if they cannot be
        compared."""
        if any(entry["local"] is None for entry in session.states()):
            self._agree(None)

    def _agree(self, states: Optional[set[int]]) -> None:
        for watched in self._watched:
            if (owner := watched.owner()) is None or (state := watched.now(owner)) is None:
                continue
            if (states is None or id(state) in states) and watched.is_written(state):
                self._held.add(state)

    def _check_modules(self, gone: Optional[str]) -> None:
        """`gone` is a parameter or a buffer that is no longer in its module."""
        if "replaced" not in self._said and (name := self._modules.replaced() or gone) is not None:
            self._warn(
                "replaced",
                f"{name} of the model was replaced or removed after the step was compiled, and the "
                "run trains the one that it was compiled for: compile the step anew, and give that "
                "run this one's state_dict()",
            )
        if "hooked" not in self._said and (name := self._modules.hooked()) is not None:
            self._warn(
                "hooked",
                f"{name} was given a hook after the step was compiled, and the run does not call "
                "it, since no Python runs while a plan does: a forward hook that computes belongs "
                "into the model before compile, and what hooks record, give as metrics= or outputs=",
            )

    def _check_units(self) -> None:
        for change in self._units.changes():
            if change.is_number:
                raise RunError(
                    E.RUN_STATE,
                    at_line(
                        in_short(*change.line) if change.line else "",
                        f"{change.text}, and a run trains by the plan that it has; call it before "
                        "compile, or compile the step anew and give that run this one's "
                        "state_dict(optimizer=True)",
                    ),
                )
            if change.text in self._said:
                continue
            self._warn(
                change.text,
                f"{change.text}, and the plan goes on gathering and freeing parameters as it was "
                "compiled to, which changes no number: call it before compile",
                change.line,
            )

    def _check_arguments(self) -> None:
        if (step := self._step()) is None or (now := _arguments(step)) == self._arguments:
            return
        name = next(name for name in now if now[name] != self._arguments.get(name))
        self._warn(
            "arguments",
            f"{name} of the TrainingStep was set after the step was compiled, and the run goes on "
            "with what it was compiled for: compile the step anew, and give that run this one's "
            "state_dict(optimizer=True)",
        )

    def check_inputs(self) -> None:
        """Warns, once, where the step takes the inputs of the export, and these were written to."""
        for name, reference, version in self._inputs if "inputs" not in self._said else ():
            if (tensor := reference()) is not None and version_of(tensor) != version:
                self._warn(
                    "inputs",
                    f"{name} of the step's inputs was written to after the step was compiled, and "
                    "a step without a batch takes those that it was compiled with: give the batch, "
                    f"as run({{'{name}': ...}})",
                )
                return

    def step_is_taken(self) -> None:
        """From now on the model's values are old, and the optimizer's states."""
        if self._has_states is None:
            session = self._run()._session
            self._has_states = any(entry["role"] == "optimizer" for entry in session.states())
        self._held.hold()

    def _values_are_read(self, states: list[torch.Tensor]) -> None:
        if "values" in self._said:
            return
        session = getattr(self._run(), "_open", None)
        named = self._named(states)
        trained = {watched.name for watched in self._watched if watched.trainable}
        if session is None:
            name: Optional[str] = next(iter(named))
        else:
            name = _first_that_differs(named, session, trained.__contains__)
        if name is not None:
            self._warn(
                "values",
                f"{name} of the model is read, and the model has old values: the run trains values "
                "of its own. run.copy_to(model) gives the model the run's; the tensors of "
                "run.state_dict() are the run's, and what is written into them is trained",
            )

    def _gradient_is_read(self, state: torch.Tensor) -> None:
        name = next(iter(self._named([state])))
        reader = frame = innermost(sys._getframe(1), lambda file: not file.startswith(_BETWEEN))
        for _ in range(2):  # a comprehension has a frame of its own
            if frame is None:
                break
            if mend := _NEEDS_GRADIENTS.get((frame.f_code.co_filename, frame.f_code.co_name)):
                text = (
                    f"{frame.f_code.co_name} reads the gradient of {name}, and the model has none: "
                )
                text += f"the run has computed its gradients and updated its parameters; {mend}"
                raise RunError(E.RUN_STATE, at_line(own_line(frame), text))
            frame = frame.f_back
        file = reader.f_code.co_filename if reader is not None else ""
        if "gradient" in self._said or not (file == _CLIPPING or package.is_local(file)):
            return
        self._warn(
            "gradient",
            f"the gradient of {name} is read, and the model has none: "
            "the run has computed its gradients and updated its parameters. TrainingStep takes "
            "clip_grad_norm=, clip_grad_value= and scaler=; what else changes or reads gradients "
            "belongs into `step` of a subclass of the optimizer",
        )

    def _states_are_read(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._has_states or any(optimizer.state.values()) or "states" in self._said:
            return
        self._warn(
            "states",
            "state_dict() of the optimizer is read, and it has no state: the run updates "
            "parameters with states of its own. run.checkpoint(folder) writes them, and "
            "run.state_dict(optimizer=True) has them by name",
        )

    def _named(self, states: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        names = {id(watched.state()): watched.name for watched in self._watched}
        return {names.get(id(state), "a state"): state for state in states}

    def _warn(self, what: str, text: str, line: Optional[tuple[str, int]] = None) -> None:
        """Says `text` once, at the line of the script that is the cause: the one that runs now,
        where none is given."""
        self._said.add(what)
        frame = sys._getframe(1)
        frame = innermost(frame, package.is_local) or frame
        file, number = line or (frame.f_code.co_filename, frame.f_lineno)
        warnings.warn_explicit(text, RuntimeWarning, file, number)


def _states(model: torch.nn.Module) -> Iterator[_Watched]:
    """Each parameter and buffer once, parameters first."""
    found: dict[int, _Watched] = {}
    for kind in ("_parameters", "_buffers"):
        for path, module in model.named_modules():
            for key, state in getattr(module, kind).items():
                if state is not None and id(state) not in found:
                    found[id(state)] = _Watched(
                        plain_path(f"{path}.{key}".lstrip(".")),
                        weakref.ref(module),
                        kind == "_parameters",
                        key,
                        weakref.ref(state),
                        state.requires_grad,
                        version_of(state),
                        _sum_of_bytes(state),
                    )
    return iter(found.values())


def _arguments(step: TrainingStep) -> dict[str, int]:
    """What a step is made of, by identity: none of it is kept alive."""
    return {name: id(value) for name, value in vars(step).items()}


def _sum_of_bytes(state: torch.Tensor) -> Optional[int]:
    """None of a tensor without memory of its own, as on `meta`."""
    if type(state) not in (torch.Tensor, torch.nn.Parameter) or state.is_meta:
        return None
    if state.layout != torch.strided or state.is_quantized or is_freed(state):
        return None
    plain = state.detach().resolve_conj().cpu().reshape(-1)
    return zlib.crc32(plain.view(torch.uint8).numpy())


def _refusal(watched: _Watched) -> RunError:
    before, after = ("trainable", "frozen") if watched.trainable else ("frozen", "trainable")
    return RunError(
        E.RUN_STATE,
        f"{watched.name} was {before} when the step was compiled and is {after} now, and a "
        "run trains what it was compiled for; compile the step anew, and give that run this "
        "one's state_dict()",
    )


def _first_that_differs(
    states: dict[str, torch.Tensor], session: Any, is_old: Callable[[str], bool]
) -> Optional[str]:
    """The name of the first parameter or buffer among `states` that differs from the run's on this
    rank. A write need not make a difference: `copy_to` writes the run's own values. `is_old` says
    it of a parameter whose piece on this rank is no rows of it, as in the layout `flat`."""
    for entry in session.states():
        name, own = entry["name"], entry["local"]
        if entry["role"] not in ("parameter", "buffer") or name not in states:
            continue
        if own is None:
            if not states[name].is_meta and is_old(name):
                return name
            continue
        whole = as_pairs_of(states[name].detach(), entry["shape"])
        part = own_part(whole, entry, session)
        if part.is_meta or part.shape != own.shape:
            continue
        if not torch.equal(part.to(own), own):
            return name
    return None

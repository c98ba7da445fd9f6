"""Notices what a script does to its model while a run trains, which the run cannot follow."""

from __future__ import annotations

import dataclasses
import warnings
import weakref
from typing import Any, Optional

import torch

from ..errors import E, RunError
from ..step.names import plain_path
from ..step.pairs import as_pairs_of
from ..step.training_step import TrainingStep
from .run_state import own_part


@dataclasses.dataclass
class _Watched:
    """A parameter or a buffer of the model, as it was at the last check."""

    name: str
    state: weakref.ref[torch.Tensor]
    trainable: bool
    version: int


class WatchedModel:
    """Watches the model that a run was compiled from. The script may still hold it; the run does not."""

    def __init__(self, step: TrainingStep) -> None:
        self._watched = [
            _Watched(plain_path(path), weakref.ref(state), state.requires_grad, _version(state))
            for path, state in (*step.model.named_parameters(), *step.model.named_buffers())
        ]
        self._has_warned = False

    def check(self, session: Any) -> None:
        """Raises RunError where a parameter was frozen, or released, since the step was compiled.
        Warns, once, where the script wrote a value that differs from the run's into a parameter or
        a buffer."""
        written: dict[str, torch.Tensor] = {}
        for watched in self._watched:
            state = watched.state()
            if state is None:  # the state is gone, or the whole model is
                continue
            if state.requires_grad != watched.trainable:
                raise _refusal(watched)
            if _version(state) != watched.version:
                watched.version = _version(state)
                written[watched.name] = state
        if not written or self._has_warned:
            return
        if (name := _first_that_differs(written, session)) is not None:
            self._has_warned = True
            warnings.warn(
                f"{name} of the model was written to after the step was compiled, and the run "
                "trains values of its own: run.load_state_dict(model.state_dict()) gives it these, "
                "and run.copy_to(model) gives the model the run's; what the step decides in Python "
                "by a buffer stays as it was until it is compiled anew",
                RuntimeWarning,
                stacklevel=4,  # the script's line that takes the step
            )


def _refusal(watched: _Watched) -> RunError:
    before, after = ("trainable", "frozen") if watched.trainable else ("frozen", "trainable")
    return RunError(
        E.RUN_STATE,
        f"{watched.name} was {before} when the step was compiled and is {after} now, and a "
        "run trains what it was compiled for; compile the step anew, and give that run this "
        "one's state_dict()",
    )


def _version(state: torch.Tensor) -> int:
    """How often a tensor was written to; 0 for one of inference mode, which does not count."""
    return 0 if state.is_inference() else state._version


def _first_that_differs(states: dict[str, torch.Tensor], session: Any) -> Optional[str]:
    """The name of the first parameter or buffer among `states` that differs from the run's on this
    rank. A write need not make a difference: `copy_to` writes the run's own values."""
    for entry in session.states():
        name, own = entry["name"], entry["local"]
        if entry["role"] not in ("parameter", "buffer") or name not in states or own is None:
            continue
        whole = as_pairs_of(states[name].detach(), entry["shape"])
        part = own_part(whole, entry, session)
        if part.is_meta or part.shape != own.shape:
            continue
        if not torch.equal(part.to(own), own):
            return name
    return None

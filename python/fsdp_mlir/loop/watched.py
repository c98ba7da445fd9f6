"""What a script does to its model while a run trains that the run cannot follow."""

from __future__ import annotations

import warnings
import weakref
from typing import Any, Optional

import torch

from ..errors import E, RunError
from ..step.names import plain_path
from ..step.pairs import as_pairs_of
from ..step.training_step import TrainingStep
from .run_state import own_part


class WatchedModel:
    """The model that a run was compiled from, which the script may still hold: the run does not."""

    def __init__(self, step: TrainingStep) -> None:
        named = [(plain_path(path), p) for path, p in step.model.named_parameters()]
        self._names = [name for name, _ in named]
        self._parameters = [weakref.ref(parameter) for _, parameter in named]
        self._trainable = [parameter.requires_grad for _, parameter in named]
        self._versions: Optional[list[int]] = [_version(parameter) for _, parameter in named]

    def check(self, session: Any) -> None:
        """Raises RunError where a parameter was frozen, or released, since the step was compiled.
        Warns, once, where the script gave one a value that the run has not."""
        held = [parameter() for parameter in self._parameters]
        if not all(parameter is not None for parameter in held):  # the model is gone
            self._names, self._parameters, self._trainable = [], [], []
            self._versions = None
            return
        now = [parameter.requires_grad for parameter in held]
        if now != self._trainable:
            raise self._refusal(now)
        if self._versions is None:
            return
        versions = [_version(parameter) for parameter in held]
        if versions == self._versions:
            return
        self._versions = versions
        if (name := _first_that_differs(dict(zip(self._names, held)), session)) is not None:
            self._versions = None
            warnings.warn(
                f"{name} of the model was written to after the step was compiled, and the run "
                "trains values of its own: run.load_state_dict(model.state_dict()) gives it these, "
                "and run.copy_to(model) gives the model the run's",
                RuntimeWarning,
                stacklevel=4,  # the script's line that takes the step
            )

    def _refusal(self, now: list[bool]) -> RunError:
        was = next(i for i, (a, b) in enumerate(zip(now, self._trainable)) if a != b)
        before, after = ("trainable", "frozen") if self._trainable[was] else ("frozen", "trainable")
        return RunError(
            E.RUN_STATE,
            f"{self._names[was]} was {before} when the step was compiled and is {after} now, and a "
            "run trains what it was compiled for; compile the step anew, and give that run this "
            "one's state_dict()",
        )


def _version(parameter: torch.Tensor) -> int:
    """How often it was written to; a tensor of inference mode does not tell."""
    return 0 if parameter.is_inference() else parameter._version


def _first_that_differs(parameters: dict[str, torch.Tensor], session: Any) -> Optional[str]:
    """The name of a parameter that is not what the run has on this rank. What a script writes may
    well be that: `copy_to` does so."""
    for entry in session.states():
        name, own = entry["name"], entry["local"]
        if entry["role"] != "parameter" or name not in parameters or own is None:
            continue
        whole = as_pairs_of(parameters[name].detach(), entry["shape"])
        part = own_part(whole, entry, session)
        if part.is_meta or part.shape != own.shape:
            continue
        if not torch.equal(part.to(own), own):
            return name
    return None

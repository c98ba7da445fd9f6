"""What a script does to its model while a run trains that the run cannot follow."""

from __future__ import annotations

import weakref

from ..errors import E, RunError
from ..step.names import plain_path
from ..step.training_step import TrainingStep


class WatchedModel:
    """The model that a run was compiled from, which the script may still hold: the run does not."""

    def __init__(self, step: TrainingStep) -> None:
        named = [(plain_path(path), p) for path, p in step.model.named_parameters()]
        self._names = [name for name, _ in named]
        self._parameters = [weakref.ref(parameter) for _, parameter in named]
        self._trainable = [parameter.requires_grad for _, parameter in named]

    def check(self) -> None:
        """Raises RunError where a parameter was frozen, or released, since the step was compiled."""
        try:
            now = [parameter().requires_grad for parameter in self._parameters]
        except AttributeError:  # the model is gone
            self._names, self._parameters, self._trainable = [], [], []
            return
        if now == self._trainable:
            return
        was = next(i for i, (a, b) in enumerate(zip(now, self._trainable)) if a != b)
        before, after = ("trainable", "frozen") if self._trainable[was] else ("frozen", "trainable")
        raise RunError(
            E.RUN_STATE,
            f"{self._names[was]} was {before} when the step was compiled and is {after} now, and a "
            "run trains what it was compiled for; compile the step anew, and give that run this "
            "one's state_dict()",
        )

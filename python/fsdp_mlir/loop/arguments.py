"""What `load` and a run are called with, looked at before any of it is used."""

from __future__ import annotations

import functools
import math
import os
from typing import Any, Callable, Mapping, TypeVar

import numpy as np
import torch

from ..errors import BatchError, E, RunError

Method = TypeVar("Method", bound=Callable[..., Any])


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_seconds(value: Any) -> bool:
    is_number = _is_whole(value) or isinstance(value, (float, np.floating))
    return is_number and 0 <= value < math.inf


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _is_switch(value: Any) -> bool:
    return isinstance(value, (int, np.bool_))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


# Of each argument of `load` what it may be, and what to say of anything else. Of what a text names
# the session says more.
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "plan": (_is_path, "the path of step.plan"),
    "weights": (_is_path, "the path of a file or a folder"),
    "resume": (_is_path, "the path of a checkpoint, or of a folder of some"),
    "seed": (lambda v: _is_whole(v) and -(2**63) <= v < 2**63, "a whole number below 2**63"),
    "weights_from_rank0": (_is_switch, "True or False"),
    "rng": (lambda value: value in ("site", "sequential"), "'site' or 'sequential'"),
    "non_finite": (_is_text, "'plan', 'continue', 'stop' or 'skip'"),
    "cuda_graph": (_is_switch, "True or False"),
    "comm": (_is_text, "'auto', 'shm', 'gloo' or 'nccl'"),
    "timeout": (_is_seconds, "a number of seconds, or 0 for what the plan expects"),
    "meeting_timeout": (lambda v: _is_seconds(v) and 0 < v < 2**31, "a number of seconds above 0"),
    "rendezvous": (_is_text, "'env://', 'tcp://HOST:PORT' or 'file:///PATH'"),
}
_OPTIONAL = "weights", "resume", "seed"


def check_load(given: Mapping[str, Any]) -> None:
    """Raises RunError: one of these arguments of `load` is none that it takes."""
    for name, (holds, wanted) in _KINDS.items():
        if name not in given or (given[name] is None and name in _OPTIONAL):
            continue
        if not holds(value := given[name]):
            is_plain = isinstance(value, (bool, int, float, str, type(None)))
            shown = repr(value) if is_plain else type(value).__name__
            raise RunError(E.STEP_ARGUMENT, f"{name} is {shown}; give {wanted}")


def of_one_batch(method: Method) -> Method:
    """Has a method of a run that takes a batch refuse what a model would be called with. Other ranks
    hear of it, which would wait for this one."""

    @functools.wraps(method)
    def checked(run: Any, *given: Any, **named: Any) -> Any:
        if len(given) + len(named) > 1 or (named and "batch" not in named):
            what = (
                f"{len(given) + len(named)} arguments" if given else f"{', '.join(named)} by name"
            )
            text = f"a run is called with {what}; give one batch, a dict of tensors by name"
            if run.size > 1:
                run._session.leave(text)
            raise BatchError(E.BATCH, text)
        if torch._C._is_any_autocast_enabled():
            raise RunError(
                E.RUN_STATE,
                "the run is called under torch.autocast, and a plan has the casts that its loss "
                "had when it was compiled; write `with torch.autocast` into the loss, not around "
                "the call",
            )
        return method(run, *given, **named)

    return checked  # type: ignore[return-value]

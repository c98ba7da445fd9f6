"""Random numbers that a step draws again, by the state that PyTorch's generator had before: a plan draws
other ones at each place."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Iterator
from unittest import mock

import torch
from torch import fx

from ...errors import E, ExportError
from ...step.places import at_line, innermost, is_pythons, is_users, said_line
from .nodes import is_random


@contextlib.contextmanager
def replays_found() -> Iterator[list[str]]:
    """Gives the lines of the step that set the state, as `set_rng_state` and the end of `fork_rng` do."""
    lines: list[str] = []
    original = torch.set_rng_state

    @functools.wraps(original)
    def set_rng_state(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        frame = innermost(sys._getframe(1), _asks)
        if frame is not None and is_users(frame.f_code.co_filename):
            lines.append(said_line(frame))

    with contextlib.ExitStack() as stack:
        for owner in (torch, torch.random):
            stack.enter_context(mock.patch.object(owner, "set_rng_state", set_rng_state))
        yield lines


def _asks(path: str) -> bool:
    """Whether a file is neither that of `fork_rng` nor Python's own, by which it is called."""
    return path != torch.random.__file__ and not is_pythons(path)


def refuse_replays(lines: list[str], graph: fx.Graph) -> None:
    """Raises ExportError where the graph of a step that has such lines draws random numbers."""
    if lines and any(is_random(node.target) for node in graph.nodes):
        raise ExportError(
            E.MODEL_WRAPPED,
            at_line(
                lines[0],
                "the step sets the state of PyTorch's generator (set_rng_state, fork_rng), to draw the same "
                "numbers again, and a plan draws others at each place; draw them once, and compute with "
                "them again; a layer that is computed again draws the same in a checkpoint "
                "(torch.utils.checkpoint)",
            ),
        )

"""Errors of a capture that the step's own code answers (`try: ... except Exception:`): eager mode has no such
errors, so that what the step does behind one is nothing that it does in a run."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Iterator
from unittest import mock

from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from ...errors import ExportError
from ...step.places import is_pythons, is_users

_OF_CAPTURE = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
    GuardOnDataDependentSymNode,
    ExportError,
)


@contextlib.contextmanager
def none_answered() -> Iterator[None]:
    """Raises the first such error behind the code that runs within it."""
    made: list[Exception] = []
    with contextlib.ExitStack() as stack:
        for kind in _OF_CAPTURE:
            stack.enter_context(mock.patch.object(kind, "__init__", _noting(kind.__init__, made)))
        yield
    for error in made:
        # Python adds each frame that an error leaves to its trace: the outermost one has answered it.
        trace = error.__traceback__
        if trace is not None and _is_of_step(trace.tb_frame.f_code.co_filename):
            raise error


def _noting(original: Any, made: list[Exception]) -> Any:
    @functools.wraps(original)
    def init(error: Exception, *args: Any, **kwargs: Any) -> None:
        original(error, *args, **kwargs)
        made.append(error)

    return init


def _is_of_step(path: str) -> bool:
    return is_users(path) and not is_pythons(path)

"""Random numbers that a step draws from Python or NumPy, of which each step of a plan would get the
same."""

from __future__ import annotations

import contextlib
import random
import sys
import traceback
from typing import Any, Callable
from unittest import mock

import numpy

from ...step.places import said_location


def where_drawn(run: Callable[[], Any]) -> str:
    """The line that first draws from Python's or NumPy's global generator while `run` does."""
    places: list[str] = []

    def note() -> None:
        places.append(said_location("".join(traceback.format_stack())))

    def noting(draw: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            note()
            return draw(*args, **kwargs)

        return noted

    def of_python(frame: Any, event: str, called: Any) -> None:
        """Sees Python's draws by whatever name the code has for them."""
        if event == "c_call" and getattr(called, "__self__", None) is random._inst:
            note()

    before = sys.getprofile()
    with contextlib.ExitStack() as stack:
        generator = numpy.random.mtrand._rand
        for name, draw in list(vars(numpy.random).items()):
            if getattr(draw, "__self__", None) is generator:
                stack.enter_context(mock.patch.object(numpy.random, name, noting(draw)))
        sys.setprofile(of_python)
        stack.callback(sys.setprofile, before)
        run()
    return next(filter(None, places), "")


def python_generators() -> tuple[Any, ...]:
    """The states of Python's and NumPy's global generators: equal where nobody has drawn."""
    name, keys, *rest = numpy.random.get_state()
    return random.getstate(), name, keys.tobytes(), *rest

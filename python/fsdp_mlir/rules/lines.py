"""Which line of an optimizer an error is about, as "lion.py:12: "; "" where there is no source."""

from __future__ import annotations

import inspect
import traceback

from ..step.places import PYTORCH, in_short
from .numbers import is_optimizers


def line_of_step(optimizer: type, text: str = "") -> str:
    """The first line of the optimizer's `step` that has `text`, in quotes of either kind, or else
    that which defines it; "" of PyTorch's own."""
    try:
        step = inspect.unwrap(optimizer.step)
        if inspect.getfile(step).startswith(PYTORCH):  # which nobody is to change
            return ""
        lines, start = inspect.getsourcelines(step)
    except (OSError, TypeError):
        return ""
    has = [number for number, line in enumerate(lines) if text and text in line.replace("'", '"')]
    defines = [number for number, line in enumerate(lines) if line.lstrip().startswith("def ")]
    number = (has or defines or [0])[0]
    return f"{in_short(inspect.getfile(step), start + number)}: "


def line_of(error: Exception) -> str:
    """The innermost line of an optimizer in the error's traceback."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_optimizers(frame.filename):
            return f"{in_short(frame.filename, frame.lineno)}: "
    return ""

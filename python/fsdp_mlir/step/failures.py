"""What a program says of the error that a step file, or what is made of it, ended in."""

from __future__ import annotations

import re
import traceback
from typing import Optional

from ..errors import E, ExportError, Identified, identified
from .missing_gpu import missing_gpu
from .places import at_line, own_location
from .process_groups import missing_group


def words_of(error: BaseException, file: str, made_at: str = "") -> Optional[str]:
    """A line with the place in the user's code, as far as one is known; None of an end of the program
    that has been explained, as by argparse. `file` is the step file, and `made_at` where it makes
    its TrainingStep, if it came to that: the place of what has none of its own."""
    where = own_location("".join(traceback.format_exception(error))) or made_at
    if isinstance(error, SystemExit):
        return _words_of_end(error, where)
    text = " ".join(str(error).split()) or "no message"
    kind, said = E.STEP_RAISES, f"{type(error).__name__}: {text}"
    if isinstance(error, ExportError):
        if error.kind is None or re.match(r"\S+:\d+\b", error.message):
            return str(error)
        return identified(error.kind, at_line(where, error.message))
    if isinstance(error, Identified):
        kind, said = error.kind or kind, error.message
    if (mend := missing_group(error) or missing_gpu(error)) is not None:
        kind, said = E.NOT_SUPPORTED, mend
    return identified(kind, f"{where or file}: {said}")


def _words_of_end(error: SystemExit, where: str) -> Optional[str]:
    """Of a step file that ends the program by a line of its own, without a text."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if isinstance(error.code, str) or not where.endswith(f":{last.lineno}"):
        return None
    said = "the step file ends the program here; have training_step() return a TrainingStep"
    return identified(E.STEP_FILE, f"{where}: {said}")

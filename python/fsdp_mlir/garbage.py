"""Python's garbage collector while a step is exported."""

from __future__ import annotations

import contextlib
import gc
from typing import Iterator

# Objects that are made between two collections of new ones, and how many of these are between two
# of older ones.
_SELDOM = (20_000, 20, 20)


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """Within it, garbage is collected less often: a trace makes many objects, of which most stay, and
    each of Python's collections looks at them again, for a tenth of an export's time."""
    before = gc.get_threshold()
    if before[0]:  # else somebody has turned it off
        gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)

"""Random numbers that a step draws and computes nothing of, which PyTorch leaves out of a graph."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Iterator
from unittest import mock

from torch import fx

from ...errors import note
from ...step.places import at_line
from .nodes import is_random, location

_TEXT = (
    "the step draws random numbers that nothing is computed of, and a plan does not; with "
    "--rng=sequential those behind them are others than eager's"
)


@contextlib.contextmanager
def unused_draws_noted() -> Iterator[None]:
    """Within it, a note says of the first such draw of a capture where it is."""
    lines: dict[str, None] = {}
    original = fx.Graph.eliminate_dead_code

    @functools.wraps(original)
    def eliminate_dead_code(graph: fx.Graph, *args: Any, **kwargs: Any) -> bool:
        draws = {node: location(node) for node in graph.nodes if is_random(node.target)}
        changed = original(graph, *args, **kwargs)
        left = set(graph.nodes) if draws else set()
        lines.update(dict.fromkeys(line for draw, line in draws.items() if draw not in left))
        return changed

    with mock.patch.object(fx.Graph, "eliminate_dead_code", eliminate_dead_code):
        yield
    for line in list(lines)[:1]:
        note(at_line(line, _TEXT))

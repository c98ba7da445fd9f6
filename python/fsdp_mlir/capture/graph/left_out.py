"""What a step does that PyTorch leaves out of a graph, since nothing is computed of it: random numbers that
it draws, and the errors of linear algebra."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Iterator
from unittest import mock

import torch
from torch import fx

from ...errors import E, note
from ...step.places import at_line
from .nodes import is_answered, is_random, location, refusal

_DRAWS = (
    "the step draws random numbers that nothing is computed of, and a plan does not; with "
    "--rng=sequential those behind them are others than eager's"
)
_ERRORS = (
    "a plan does not look whether {} fails, as for a matrix that has no inverse or is not positive "
    "definite, and computes on"
)
_ANSWERED = (
    "the step goes on behind an error of {}, which a plan does not look for; ask what "
    "torch.linalg.cholesky_ex or inv_ex say, and choose by torch.where"
)
_CHECK = torch.ops.aten._linalg_check_errors.default
_LINALG_ERROR = "LinAlgError"  # as it is known in torch.linalg


@contextlib.contextmanager
def left_out_noted() -> Iterator[None]:
    """Within it, a note says of the first such draw, and of each function's first such error, where it is.

    Raises:
        ExportError: the step goes on behind such an error.
    """
    said: dict[str, str] = {}
    original = fx.Graph.eliminate_dead_code

    @functools.wraps(original)
    def eliminate_dead_code(graph: fx.Graph, *args: Any, **kwargs: Any) -> bool:
        draws = {node: location(node) for node in graph.nodes if is_random(node.target)}
        for check in graph.find_nodes(op="call_function", target=_CHECK):
            if is_answered(check, _LINALG_ERROR):
                raise refusal(E.VALUE_DEPENDENT, check, _ANSWERED.format(check.args[1]))
            said.setdefault(_ERRORS.format(check.args[1]), location(check))
        changed = original(graph, *args, **kwargs)
        left = set(graph.nodes) if draws else set()
        for line in (line for draw, line in draws.items() if draw not in left):
            said.setdefault(_DRAWS, line)
        return changed

    with mock.patch.object(fx.Graph, "eliminate_dead_code", eliminate_dead_code):
        yield
    for text, line in said.items():
        note(at_line(line, text))

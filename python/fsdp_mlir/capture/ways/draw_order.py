"""Which random numbers of several ways through a step are one draw.

Eager mode draws on the way that it takes. What each way draws behind a branch is drawn once for all, also
where one way has drawn more in it, as a layer that another one leaves out. What each draws in a branch
is one draw for both as far as both draw.
"""

from __future__ import annotations

import difflib
import itertools
from typing import Any, Sequence

from torch import fx

from ..graph.nodes import is_random


class DrawOrder:
    """The draws of all ways that were seen, in an order in which each has its own."""

    def __init__(self) -> None:
        self._order: list[tuple[Any, int]] = []  # what is drawn where, and the number of the draw
        self._numbers = itertools.count()

    def numbers(self, nodes: Sequence[fx.Node]) -> dict[fx.Node, int]:
        """The number of the draw that each node of a way is; equal ones are one draw."""
        drawing = [node for node in nodes if is_random(node.target)]
        known = [what for what, _ in self._order]
        ours = [_what(node) for node in drawing]
        order: list[tuple[Any, int]] = []
        found: list[int] = []
        matcher = difflib.SequenceMatcher(None, known, ours, autojunk=False)
        for _, begin, end, low, high in matcher.get_opcodes():
            part = self._order[begin:end]
            found += [number for _, number in part[: high - low]]
            part += [(what, next(self._numbers)) for what in ours[low + len(part) : high]]
            found += [number for _, number in part[end - begin :]]
            order += part
        self._order = order
        return dict(zip(drawing, found, strict=True))


def _what(node: fx.Node) -> Any:
    """What a node draws, and where the code does."""
    modules = tuple(node.meta.get("nn_module_stack") or ())
    return node.target, node.meta.get("stack_trace"), modules

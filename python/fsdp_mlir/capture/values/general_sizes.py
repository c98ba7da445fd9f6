"""What library code asks about sizes that depend on values: is there none, is there just one?

PyTorch's own code asks it to choose a shorter way, or another layout, to the same values. It is
answered as for a general size. The user's code, which may do anything by the answer, gets none.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from types import CodeType
from typing import Any, Callable, Iterator
from unittest import mock

import sympy
import torch
from torch._dynamo.utils import run_node
from torch.fx.experimental import sym_node
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

from ... import package
from ...step.places import PYTORCH, is_users
from .value_checks import Place, passing_at, places_of

_LARGE = 10_000
# Losses that compare in C++, where no check is passed, how many rows their operands have.
_OF_EQUAL_ROWS = ("cross_entropy_loss", "nll_loss_nd")
# Who passes a question on.
_BETWEEN = tuple(os.path.join(PYTORCH, part) for part in ("_dynamo", "fx", "__init__.py", "utils"))


@contextlib.contextmanager
def general_sizes() -> Iterator[None]:
    """Within it, PyTorch's code is told that sizes by values are large, each another number, where it
    would be told the same of other general sizes. A check that does nothing but raise passes."""
    original = ShapeEnv.evaluate_expr

    def evaluate_expr(self: ShapeEnv, question: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, question, *args, **kwargs)
        except GuardOnDataDependentSymNode:
            asking = list(_who_asks())
            if not (question.is_Relational or question.is_Boolean):
                raise
            passes = passing_at(iter(asking))
            if passes is not None:
                return sympy.true if passes else sympy.false
            if is_users(asking[0][0]):
                raise
            answers = {question.xreplace(sizes) for sizes in _examples(question)}
            if len(answers) > 1:  # as which of two sequences is longer
                raise
            return answers.pop()

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(ShapeEnv, "evaluate_expr", evaluate_expr))
        for name in _OF_EQUAL_ROWS:
            loss = _with_equal_rows(getattr(torch._C._nn, name))
            stack.enter_context(mock.patch.object(torch._C._nn, name, loss))
        yield


def _with_equal_rows(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A loss whose operands have equal numbers of rows, which a step is checked for, where these
    depend on values, as of `h[y >= 0]` and `y[y >= 0]`."""

    @functools.wraps(original)
    def loss(rows: torch.Tensor, target: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if rows.dim() > 1 and target.dim() > 0:
            sizes = rows.shape[0], target.shape[0]
            if any(isinstance(size, torch.SymInt) for size in sizes):
                torch._check(sizes[0] == sizes[1])
        return original(rows, target, *args, **kwargs)

    return loss


def _examples(question: Any) -> Iterator[dict[Any, int]]:
    """Sizes that are general: large ones and, where a question compares them, the same in another
    order, and small ones of more than one element."""
    symbols = sorted(question.free_symbols, key=str)
    primes = [sympy.nextprime(_LARGE, i + 1) for i in range(len(symbols))]
    yield dict(zip(symbols, primes))
    if question.atoms(sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge):
        yield dict(zip(symbols, reversed(primes)))
        yield dict(zip(symbols, range(2, len(symbols) + 2)))


def _who_asks() -> Iterator[Place]:
    """Where the code that asks is, of what runs or of what Dynamo follows, and what has called it."""
    frame, inner = sys._getframe(2), ""
    while frame is not None:
        path = frame.f_code.co_filename
        if inner == sym_node.__file__ and _runs_operator(frame.f_code):
            yield inner, frame.f_lineno
            return
        if path.endswith("_dynamo/symbolic_convert.py"):
            follower = frame.f_locals["self"]
            while follower is not None:
                yield follower.f_code.co_filename, follower.lineno
                follower = getattr(follower, "parent", None)
            return
        if not path.startswith((*_BETWEEN, "<", package.FOLDER)):
            yield from places_of(frame)
            return
        frame, inner = frame.f_back, path
    yield "", 0


def _runs_operator(code: CodeType) -> bool:
    """Whether code that a symbol's question comes from runs an operator, which asks in C++. Python
    asks by methods of PyTorch's, as that of a condition."""
    if code is run_node.__code__ or code.co_name == "__torch_function__":
        return True
    return not code.co_filename.startswith(PYTORCH)

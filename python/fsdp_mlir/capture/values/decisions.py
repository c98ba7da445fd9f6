"""Decisions that Python makes by what a step computes: `if mask.any():`, `if len(rows) == 0:`.

No Python runs while a plan does. So such a step is traced once for each answer, with the condition
among its results: `both_ways` has what becomes of them. Here is who gives the answers.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dataclasses
import functools
import sys
from types import FrameType
from typing import Any, Callable, Iterator, Optional, Sequence, Union
from unittest import mock

import sympy
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils._sympy import functions as sizes

from ...errors import E, ExportError
from ...step.places import in_short, innermost, is_users, said_location, trace_of
from ...step.source import conditions_at
from .known_sizes import KnownSizes
from .listed_places import loops_over_places

# So many decisions of a step are told apart.
MOST_DECISIONS = 48
_RELATIONS: dict[Any, Callable[..., torch.Tensor]] = {
    sympy.Eq: torch.eq,
    sympy.Ne: torch.ne,
    sympy.StrictLessThan: torch.lt,
    sympy.LessThan: torch.le,
    sympy.StrictGreaterThan: torch.gt,
    sympy.GreaterThan: torch.ge,
}
_COMPUTE: dict[Any, Callable[..., torch.Tensor]] = {
    sympy.Add: torch.add,
    sympy.Mul: torch.mul,
    **dict.fromkeys((sympy.Max, sizes.Max), torch.maximum),
    **dict.fromkeys((sympy.Min, sizes.Min), torch.minimum),
}


class ValuesDecide(ExportError):
    """A refusal that has its line already."""


@dataclasses.dataclass
class Asked:
    """A question that a run of a step asked.

    Attributes:
        condition: what it asks for, a truth value without dimensions.
        line: where, as `file.py:31`.
        answer: what it was told.
    """

    condition: torch.Tensor
    line: str
    answer: bool


# What a step is told that asks on a line; with a number, the time after so many on that line.
Usual = dict[Union[str, tuple[str, int]], bool]


class Answers:
    """What a step is told that asks, in order; behind the last answer that is given, what is `usual`, or
    True.

    Attributes:
        asked: by the last run.
        leaves_state: whether a run has left something in Python.
    """

    def __init__(self, given: Sequence[bool], usual: Usual) -> None:
        self._given = tuple(given)
        self._usual = usual
        self.leaves_state = False
        self.asked: list[Asked] = []
        self._sizes = KnownSizes()

    @property
    def told(self) -> tuple[bool, ...]:
        """The answers to the last run."""
        return tuple(question.answer for question in self.asked)

    @property
    def lines(self) -> tuple[str, ...]:
        """Where the last run has asked."""
        return tuple(question.line for question in self.asked)

    def again(self) -> Answers:
        """The same answers for another run."""
        return Answers(self._given, self._usual)

    def begin(self) -> None:
        """A run begins."""
        self.asked = []
        self._sizes = KnownSizes()

    def of_value(self, tensor: torch.Tensor, frame: FrameType) -> bool:
        """The answer to `if tensor:`, asked from a frame of the user's."""
        return self._answer(tensor.detach().reshape(()).ne(0), frame)

    def of_size(self, condition: torch.SymBool, frame: FrameType) -> Optional[bool]:
        """That to a comparison of sizes, or what the answers before say; None: of others."""
        node, expression = condition.node, condition.node.expr
        compare = _RELATIONS.get(expression.func)
        if compare is None:
            return None
        answer = self._sizes.follows(expression, node.shape_env)
        if answer is None:
            sides = [_computed(side, node.shape_env) for side in expression.args]
            answer = self._answer(compare(*sides), frame)
            self._sizes.note(expression, answer, node.shape_env)
        return answer

    def _answer(self, condition: torch.Tensor, frame: FrameType) -> bool:
        path, number = frame.f_code.co_filename, frame.f_lineno
        line = said_location(trace_of(frame)) or in_short(path, number)
        if any(isinstance(asks, ast.While) for asks in conditions_at(path, number)):
            raise ValuesDecide(
                E.VALUE_DEPENDENT,
                f"{line}: the step repeats a loop as often as values say; let it run as often as it "
                "may have to, and choose by torch.where",
            )
        return self.of_condition(condition, line)

    def of_condition(self, condition: torch.Tensor, line: str) -> bool:
        """The answer to a condition, a truth value without dimensions, that is asked for on a line."""
        place = len(self.asked)
        before = self.lines.count(line)
        usual = self._usual.get((line, before), self._usual.get(line, True))
        answer = self._given[place] if place < len(self._given) else usual
        self.asked.append(Asked(condition, line, answer))
        return answer


def _computed(size: sympy.Expr, environment: ShapeEnv) -> torch.Tensor:
    """A size as a tensor without dimensions, computed of those that capture has a name for."""
    compute = next((_COMPUTE[kind] for kind in type(size).__mro__ if kind in _COMPUTE), None)
    if compute is not None:
        return functools.reduce(compute, (_computed(part, environment) for part in size.args))
    number = int(size) if size.is_Integer else environment.create_symintnode(size, hint=None)
    return torch.scalar_tensor(number, dtype=torch.int64)


_answers: Optional[Answers] = None


@contextlib.contextmanager
def answering(answers: Answers) -> Iterator[None]:
    """Within it, a step that asks is told `answers`."""
    global _answers
    before, _answers = _answers, answers
    try:
        yield
    finally:
        _answers = before


@contextlib.contextmanager
def answering_alike() -> Iterator[None]:
    """Within it, a step that asks is told what it is told now; nobody sees what it asks."""
    if _answers is None:
        yield
        return
    with answering(_answers.again()):
        yield


def is_answering() -> bool:
    """Whether a step that asks is told something."""
    return _answers is not None


def note_state() -> None:
    """Tells who gives answers that the run has left something in Python."""
    if _answers is not None:
        _answers.leaves_state = True


def asked() -> list[Asked]:
    """What the run that has ended has asked."""
    return [] if _answers is None else list(_answers.asked)


def ask(condition: torch.Tensor, about: str) -> bool:
    """The answer to a question of the capture itself, which the step's code does not ask. `about` names
    what it concerns.

    Raises:
        DataDependentOutputException: nobody says.
    """
    if _answers is None:
        raise DataDependentOutputException(about)
    return _answers.of_condition(condition, about)


def answer_of(tensor: Any, frame: Optional[FrameType]) -> Optional[bool]:
    """What `if tensor:` is in `frame`; None: nobody says."""
    frame = _users(frame)
    if _answers is None or frame is None or tensor.numel() != 1:
        return None
    return _answers.of_value(tensor, frame)


@contextlib.contextmanager
def run_with_answers() -> Iterator[None]:
    """Within it a step runs, which is told answers where somebody gives them."""
    if _answers is None:
        yield
        return
    _answers.begin()
    with (
        mock.patch.object(torch.SymBool, "__bool__", _size_condition(torch.SymBool.__bool__)),
        mock.patch.object(builtins, "len", _length(len)),
        loops_over_places(_answers.of_value, MOST_DECISIONS),
    ):
        yield


def _size_condition(original: Callable[[Any], bool]) -> Callable[[Any], bool]:
    @functools.wraps(original)
    def condition(self: torch.SymBool) -> bool:
        try:
            return original(self)
        except GuardOnDataDependentSymNode:
            frame = _users(sys._getframe(1))
            answer = None if _answers is None or frame is None else _answers.of_size(self, frame)
            if answer is None:
                raise
            return answer

    return condition


def _length(original: Callable[[Any], int]) -> Callable[[Any], Any]:
    def length(value: Any) -> Any:
        """That of a tensor may depend on values, which no number of Python's does."""
        if isinstance(value, torch.Tensor) and value.dim() > 0:
            size = value.shape[0]
            if isinstance(size, torch.SymInt) and _users(sys._getframe(1)) is not None:
                return size
        return original(value)

    return length


def _users(frame: Optional[FrameType]) -> Optional[FrameType]:
    """The user's frame that asks in `frame`, or through a method of PyTorch's; None: another's."""
    frame = innermost(frame, lambda path: path != torch.__file__)
    if frame is not None and frame.f_code.co_filename == torch._tensor.__file__:
        # `number in tensor`, through all that follows what a step calls.
        frame = innermost(frame, is_users)
    return frame if frame is not None and is_users(frame.f_code.co_filename) else None

"""What something else than the step changes between steps: numbers and states of the optimizers and
schedulers that its code reaches. A graph that is captured with them keeps what they are now."""

from __future__ import annotations

import contextlib
import os
import traceback
import warnings
from typing import Any, Iterator, Sequence

import torch
from torch import fx

from ..errors import E, ExportError, warn
from ..step.places import PYTORCH, at_line
from .dynamo import NotFollowed
from .graph.nodes import location
from .state.reached import Holder

_DYNAMO = os.path.join(PYTORCH, "_dynamo")


@contextlib.contextmanager
def states_unread(holders: Sequence[Holder]) -> Iterator[None]:
    """Within it, code that reads the state of an optimizer is refused."""
    before = [(optimizer, optimizer.state) for optimizer in _optimizers(holders)]
    for optimizer, _ in before:
        optimizer.state = _Unread()
    try:
        yield
    finally:
        for optimizer, state in before:
            optimizer.state = state


class _Unread(dict):
    """The state of an optimizer, which no loss may read."""

    def _refuse(self, *args: Any) -> Any:
        frames = traceback.extract_stack()
        if any(frame.filename.startswith(_DYNAMO) for frame in frames):
            raise NotFollowed("an optimizer")
        raise ExportError(
            E.PYTHON_STATE,
            "the loss reads the state of an optimizer, which the plan has and no Python; compute "
            "what is needed of it in the step() of a subclass of the optimizer",
        )

    __getitem__ = __iter__ = __len__ = __contains__ = _refuse
    get = items = keys = values = _refuse  # type: ignore[assignment]


@contextlib.contextmanager
def other_numbers(holders: Sequence[Holder]) -> Iterator[None]:
    """Within it, each number of an optimizer's parameter groups, and what a scheduler's step sets
    anew, is another one."""
    schedulers = [holder for holder in holders if not isinstance(holder, torch.optim.Optimizer)]
    tables = [group for optimizer in _optimizers(holders) for group in optimizer.param_groups]
    tables += [vars(scheduler) for scheduler in schedulers]
    before = [(table, dict(table)) for table in tables]
    try:
        for scheduler in schedulers:
            _step(scheduler)
        for table, values in before:
            of_scheduler = "params" not in table
            for key, value in table.items():
                if not of_scheduler or value is not values.get(key):
                    table[key] = _other(value)
        yield
    finally:
        for table, values in before:
            table.clear()
            table.update(values)


def _optimizers(holders: Sequence[Holder]) -> list[torch.optim.Optimizer]:
    """The optimizers among `holders` and those of the schedulers, each once."""
    held = [getattr(holder, "optimizer", holder) for holder in holders]
    return list({id(optimizer): optimizer for optimizer in held}.values())


def _step(scheduler: torch.optim.lr_scheduler.LRScheduler) -> None:
    with warnings.catch_warnings(), contextlib.suppress(TypeError):  # of one that needs a metric
        warnings.simplefilter("ignore")  # that the optimizer has taken no step
        scheduler.step()


def _other(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_other, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return value + 1
    return (value / 2 or 0.5) if isinstance(value, float) else value


def say_kept(node: fx.Node, scheduled: bool) -> None:
    """Says that the call `node` has a number of now in it.

    Args:
        scheduled: whether that is surely another one in later steps.
    """
    text = at_line(
        location(node),
        "the step computes with a number that an optimizer's parameter groups or a scheduler hold, "
        "such as the learning rate; ",
    )
    if scheduled:
        raise ExportError(
            E.PYTHON_STATE,
            f"{text}the exported step would keep the one of now. Count the steps in a buffer, and "
            "compute the number from it, or make it an input",
        )
    warn(
        f"{text}the exported step keeps the one of now, whoever sets it. What must change is "
        "computed from a buffer that counts the steps, or an input"
    )

"""The ranks that a step is captured for, as its own code finds them.

Where their number is known, code finds a process group of them (`operators/collectives.py`). Where it is
not, it finds none: who asks whether processes communicate, as `SyncBatchNorm` does and code that has
`if dist.is_initialized(): dist.all_reduce(center)`, computes with each rank's own batch alone. A warning
says where.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Iterator
from unittest import mock

import torch
from torch._guards import TracingContext
from torch.distributed import distributed_c10d as groups

from ..errors import warn
from ..step.places import innermost, is_users, said_line, said_location
from .explain import Refusal
from .operators.collectives import Ranks, asked_number, collectives_of
from .step_loss import StepLoss


def ranks_found(ranks: Ranks) -> Any:
    """Within it, code finds the ranks that a plan will have."""
    return _asking_said() if ranks.count is None else collectives_of(ranks)


def traced_for(ranks: Ranks, trace: Callable[[], Any], again: Callable[[], None]) -> Any:
    """What `trace` gives. Where code takes this rank's number in a way that no value allows, as the place in
    a list, the step begins with a decision about it, and is traced so behind `again`."""
    try:
        return trace()
    except Refusal as error:
        if not ranks.numbered:
            raise
        again()
        try:
            with _decided(ranks, error.line):
                return trace()
        except Refusal:
            raise error from None


@contextlib.contextmanager
def _decided(ranks: Ranks, line: str) -> Iterator[None]:
    """Within it, each run of the step is told this rank's number, for the code on a line."""
    original = StepLoss.forward

    def forward(loss: StepLoss, *batch: torch.Tensor) -> tuple[Any, Any]:
        ranks.number = asked_number(ranks, line)
        return original(loss, *batch)

    try:
        with mock.patch.object(StepLoss, "forward", forward):
            yield
    finally:
        ranks.number = None


@contextlib.contextmanager
def _asking_said() -> Iterator[None]:
    """When it ends without an error, there is a warning for each line that has asked."""
    lines: dict[str, None] = {}

    def group(owner: Any) -> Any:
        found = groups._world.default_pg
        if found is None and (line := _line()):
            lines[line] = None
        return found

    put = groups._WorldMeta.WORLD.fset
    with mock.patch.object(groups._WorldMeta, "WORLD", property(group, put)):
        yield
    for line in lines:
        warn(
            f"{line}: the step asks whether ranks communicate (torch.distributed.is_initialized()), and "
            "nobody has said how many there are. So each rank computes with its own batch alone what the "
            "code would add up or gather over ranks, such as SyncBatchNorm's statistics; give WORLD_SIZE=N "
            "in the environment, or the model a mesh",
            stacklevel=2,
        )


def _line() -> str:
    """The user's line that runs, or that Dynamo follows."""
    followed = "".join(TracingContext.extract_stack().format())
    return said_location(followed) or said_line(innermost(sys._getframe(2), is_users))

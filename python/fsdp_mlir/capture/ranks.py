"""Code of a step that asks whether processes communicate, as `SyncBatchNorm` does and whoever adds up or
gathers over ranks: `if dist.is_initialized(): dist.all_reduce(center)`. While a step is captured they
do not, so that each rank of a plan computes with its own batch alone. A warning says where.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterator
from unittest import mock

from torch._guards import TracingContext
from torch.distributed import distributed_c10d as groups

from ..errors import warn
from ..step.places import innermost, is_users, said_line, said_location


@contextlib.contextmanager
def asking_for_ranks_said() -> Iterator[None]:
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
            f"{line}: the step asks whether ranks communicate (torch.distributed.is_initialized()). Within "
            "a step they do not: each rank computes with its own batch alone what the code would add up or "
            "gather over ranks, such as SyncBatchNorm's statistics. Gradients are averaged over all ranks "
            "as ever",
            stacklevel=2,
        )


def _line() -> str:
    """The user's line that runs, or that Dynamo follows."""
    followed = "".join(TracingContext.extract_stack().format())
    return said_location(followed) or said_line(innermost(sys._getframe(2), is_users))

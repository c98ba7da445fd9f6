"""What one turn of a contestant gives."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

from support import chain

TESTS = pathlib.Path(__file__).resolve().parents[1]


class Failed(Exception):
    """A contestant could not take part; the message says why in one line."""


@dataclasses.dataclass
class Turn:
    """`seconds` of each timed step (of both ranks where they are independent), `losses` of all
    steps, warm-up included (means over ranks), `peak_bytes` resident of rank 0; `details` are this
    project's own figures."""

    seconds: list[float]
    losses: list[float]
    peak_bytes: int
    details: dict[str, Any] = dataclasses.field(default_factory=dict)


def environment(**changes: str) -> dict[str, str]:
    """One compute thread, no launcher's variables, the tests' packages on the path."""
    path = f"{chain.PYTHON}{os.pathsep}{TESTS}"
    return chain.environment(PYTHONPATH=path, GLOO_SOCKET_IFNAME="lo", **changes)

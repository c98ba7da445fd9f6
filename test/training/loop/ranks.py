"""Two rank processes that stay up and call functions of `calls.py`."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

from support.rank_calls import RANKS, RankCalls, serve

HERE = pathlib.Path(__file__).resolve().parent


class Ranks(RankCalls):
    """What a call gives, or the exception that it raised, by rank."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(_serve, folder, preload="torch.distributed.tensor")

    def meeting(self) -> str:
        """A rendezvous that nobody has used."""
        return f"file://{self.folder}/meeting-{next(self.numbers)}"


def _serve(pipe: Any, rank: int, store: str) -> None:
    for folder in (HERE.parents[2] / "python", HERE.parents[1]):
        sys.path.insert(0, str(folder))
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    from training.loop import calls
    import torch

    torch.set_num_threads(1)
    calls.STORE = store
    serve(pipe, lambda name: getattr(calls, name))

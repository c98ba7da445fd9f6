"""What a script for several processes has left of `torch.distributed` in a step file: whose ranks
are the plan's, so that no process group is there when the file runs. How many they are, the
environment may say."""

from __future__ import annotations

import os
import traceback
from types import FrameType
from typing import Optional

from .places import is_users

# By the function or class of PyTorch that the user's line calls.
_MEND = {
    "init_device_mesh": "take init_device_mesh from fsdp_mlir, which only describes the ranks",
    "DeviceMesh": "take DeviceMesh from fsdp_mlir, which only describes the ranks",
    "fully_shard": "take fully_shard from fsdp_mlir",
    "FullyShardedDataParallel": "take FullyShardedDataParallel from fsdp_mlir",
    "DistributedDataParallel": "leave the wrapper out, since the plan takes the mean of all ranks' "
    "gradients",
    "get_rank": "read the environment's RANK, which a loader's process has",
    "get_world_size": "read the environment's WORLD_SIZE",
}
_GROUP = "leave the call out, since a plan's ranks meet by themselves"


def world_size() -> Optional[int]:
    """The environment's WORLD_SIZE; None: it says no number of ranks."""
    said = os.environ.get("WORLD_SIZE", "")
    return int(said) if said.isdecimal() and int(said) else None


def missing_group(error: BaseException) -> Optional[str]:
    """What to say of an error that PyTorch raises for want of a process group; None: it is another.

    The text says which call of the user's needs the group, and what to write instead.
    """
    said = str(error).lower()
    if not any(words in said for words in ("process group", "init_process_group", "rendezvous")):
        return None
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    users = [place for place, frame in enumerate(frames) if is_users(frame.f_code.co_filename)]
    called = frames[users[-1] + 1 :] if users else []
    if not any(
        frame.f_globals.get("__name__", "").startswith("torch.distributed") for frame in called
    ):
        return None
    names = [_name(frame) for frame in called]
    # A decorator's wrapper stands in front of what it wraps.
    name = next((name for name in names if name not in ("wrapper", "wrapped", "inner")), names[0])
    mend = _MEND.get(name, _GROUP)
    return f"PyTorch's {name} is of a process group, which a step file does not have; {mend}"


def _name(frame: FrameType) -> str:
    name = frame.f_code.co_name
    return type(frame.f_locals.get("self")).__name__ if name == "__init__" else name

"""Writes a folder of torch.distributed.checkpoint, by its own writer."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.planner import WriteItem

from .dcp_alone import alone
from .errors import E
from .folder import unfinished
from .pytorch_form import Skeleton


class _Planner(DefaultSavePlanner):
    """Reads each tensor when it is written, and gives its memory back when the next one is, since
    the writer keeps what it wrote until the end."""

    def __init__(self, skeleton: Skeleton) -> None:
        super().__init__()
        self._skeleton = skeleton
        self._written = torch.empty(0)

    def resolve_data(self, write_item: WriteItem) -> torch.Tensor | io.BytesIO:
        tensor = self._skeleton.source(self.lookup_object(write_item.index))
        if tensor is None:
            return super().resolve_data(write_item)
        self._written.untyped_storage().resize_(0)
        # PyTorch's own memory can be given back, that of an array cannot.
        self._written = self._skeleton.checkpoint.tensor(tensor).clone()
        return self._written


def export_dcp(skeleton: Skeleton, state: dict[str, Any], target: Path) -> None:
    """Writes `state`, whose keys are `model`, `optim` and so on, to the folder `target`.

    Options of the optimizer's groups are in it twice: by the group's number, as
    get_optimizer_state_dict() gives them, and by the parameter's name, as it gives them with
    flatten_optimizer_state_dict=True.
    """
    if "optim" in state:
        state = {**state, "optim": {**state["optim"], **_by_parameter(state["optim"])}}
    with unfinished(target) as partial:
        # No copy ahead: one tensor after the other.
        writer = dcp.FileSystemWriter(partial, thread_count=1, per_thread_copy_ahead=0)
        planner = _Planner(skeleton)
        with alone(target, E.FILE_UNWRITABLE):
            dcp.save(state, storage_writer=writer, planner=planner, no_dist=True)


def _by_parameter(state: dict[str, Any]) -> dict[str, Any]:
    return {
        f"param_groups.{name}.{key}": value
        for group in state["param_groups"]
        for name in group["params"]
        if not name.isdigit()  # which a group's number is, too
        for key, value in group.items()
        if key != "params"
    }

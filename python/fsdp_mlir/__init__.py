"""Train a sharded PyTorch model from a compiled plan: the Python side."""

from __future__ import annotations

from .interrupts import is_program, say_interrupts

if is_program():
    say_interrupts()

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

from .errors import BatchError, ExportError, RankFailure, RunError

# Where each name is. PyTorch is imported only for those who use one: the driver starts without.
_MODULES = {
    "TrainingStep": "step.training_step",
    "Windows": "data.files",
    "Shards": "data.files",
    "Parquet": "data.parquet_files",
    "feed": "data.feeding",
    "fully_shard": "step.fully_shard",
    "FSDPModule": "step.fsdp_module",
    "register_fsdp_forward_method": "step.fsdp_module",
    "FullyShardedDataParallel": "step.fsdp1",
    "MixedPrecisionPolicy": "step.policies",
    "OffloadPolicy": "step.policies",
    "CPUOffloadPolicy": "step.policies",
    "at_most": "step.at_most",
    "record_init": "step.init_recorder",
    "DeviceMesh": "step.mesh",
    "init_device_mesh": "step.mesh",
    "compile": "loop.compiling",
    "load": "loop.run",
    "Run": "loop.run",
}

__all__ = ["BatchError", "ExportError", "RankFailure", "RunError", *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

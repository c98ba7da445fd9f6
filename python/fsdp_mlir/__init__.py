"""Train a sharded PyTorch model from a compiled plan: the Python side."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

from .errors import BatchError, ExportError, RankFailure, RunError

# Where each name is. PyTorch is imported only for those who use one: the driver starts without.
_MODULES = {
    "TrainingStep": "training_step",
    "Windows": "data_files",
    "Shards": "data_files",
    "Parquet": "parquet_files",
    "feed": "feeding",
    "fully_shard": "fsdp_module",
    "FSDPModule": "fsdp_module",
    "register_fsdp_forward_method": "fsdp_module",
    "FullyShardedDataParallel": "fsdp1",
    "MixedPrecisionPolicy": "policies",
    "OffloadPolicy": "policies",
    "CPUOffloadPolicy": "policies",
    "record_init": "init_recorder",
    "DeviceMesh": "mesh",
    "init_device_mesh": "mesh",
    "compile": "compiling",
    "load": "run",
    "Run": "run",
}

__all__ = ["BatchError", "ExportError", "RankFailure", "RunError", *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Checkpoints of runs: looked into, verified, and taken to and from PyTorch's own formats.

    python -m fsdp_mlir.checkpoint {inspect,verify,export,import,reshard}

In scripts, `load` and `save` do so for a model and an optimizer that PyTorch itself trains.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Where each name is; what no command needs is imported for those who use it.
_MODULES = {"CheckpointError": "errors", "load": "live", "save": "live"}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

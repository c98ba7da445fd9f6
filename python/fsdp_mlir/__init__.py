"""Train a sharded PyTorch model from a compiled plan: the Python side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import ExportError

if TYPE_CHECKING:
    from .training_step import TrainingStep

__all__ = ["ExportError", "TrainingStep"]


def __getattr__(name: str) -> Any:
    """Imports PyTorch only for those who use it: the driver starts without."""
    if name == "TrainingStep":
        from .training_step import TrainingStep

        return TrainingStep
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

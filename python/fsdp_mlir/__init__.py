"""Train a sharded PyTorch model from a compiled plan: the Python side."""

from .errors import ExportError
from .training_step import TrainingStep

__all__ = ["ExportError", "TrainingStep"]

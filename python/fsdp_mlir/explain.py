"""Turns PyTorch's capture errors into one line: what, where in the user's code, how to mend it."""

from __future__ import annotations

import os
import re

import torch

from .errors import ExportError
from .training_step import TrainingStep

_PYTORCH = os.path.dirname(torch.__file__)
_HERE = os.path.dirname(__file__)
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')

_REMEDIES = (
    (
        ("data-dependent branching", "data-dependent control flow", "dynamic control flow"),
        "the step branches on the value of a tensor; use torch.where, or decide before the step",
    ),
    (
        (".item()", "tensor.item", "_local_scalar_dense", "scalar_outputs"),
        "the step reads a tensor's value as a Python number; keep it a tensor",
    ),
    (
        ("dynamic shape", "nonzero", "unbacked", "dynamic_output_shape", "data-dependent"),
        "the step has a shape that depends on values; shapes are static, use a mask or torch.where",
    ),
)


def user_location(trace: str) -> str:
    """`file.py:31` of the innermost frame in `trace` that is not PyTorch's or ours, or ""."""
    for path, line in reversed(_FRAME.findall(trace)):
        if path.startswith((_PYTORCH, _HERE, "<")) or path.endswith("_dynamo/__init__.py"):
            continue
        return f"{os.path.basename(path)}:{line}"
    return ""


def explain_capture_error(error: Exception, step: TrainingStep) -> ExportError:
    """The error to show for an exception that capture raised."""
    text = str(error)
    where = user_location(text) or user_location(_frames(error))
    prefix = f"{where}: " if where else ""
    lowered = text.lower()
    for signs, remedy in _REMEDIES:
        if any(sign in lowered for sign in signs):
            return ExportError(prefix + remedy)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return ExportError(
        f"{prefix}the step cannot be captured: {first or type(error).__name__} (--traceback shows all)"
    )


def _frames(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error))

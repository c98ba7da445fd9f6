"""Turns PyTorch's capture errors into one line: what, where in the user's code, how to mend it."""

from __future__ import annotations

import os
import re
import traceback
from typing import Any, Mapping, Optional

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from .errors import ExportError

_PYTORCH = os.path.dirname(torch.__file__)
_HERE = os.path.dirname(__file__)
# Raised where an op's result, or its shape, depends on values.
_ON_VALUES = (DataDependentOutputException, DynamicOutputShapeException)
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')

_REMEDIES = (
    (
        ("data-dependent branching", "data-dependent control flow", "dynamic control flow"),
        "the step branches on the value of a tensor; use torch.where, or decide before the step",
    ),
    (
        (".item()", "tensor.item", "_local_scalar_dense", "scalar_outputs", "tensor.tolist"),
        "the step reads a tensor's value as a Python number; keep it a tensor",
    ),
    (
        (
            "higher-order",
            "higher order",
            "torch.cond",
        ),
        "the step uses a higher-order op, which cannot be exported; write it as plain tensor code",
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


def explain_capture_error(
    error: Exception, module: torch.nn.Module, inputs: Mapping[str, torch.Tensor]
) -> ExportError:
    """The error to show for an exception that the capture of `module(*inputs)` raised."""
    own = _raised_by_step(module, inputs)
    text = str(error)
    traces = [_trace(own), text, _trace(error)]
    where = next(filter(None, map(user_location, traces)), "")
    place = f"{where}: " if where else ""
    if own is not None and not isinstance(own, _ON_VALUES):
        return ExportError(f"{place}the step raises {type(own).__name__}: {_one_line(str(own))}")
    lowered = text.lower() + str(own).lower()
    for signs, remedy in _REMEDIES:
        if any(sign in lowered for sign in signs):
            return ExportError(place + remedy)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ExportError(
            f"{place}the step computes nothing that can be captured; check that the loss depends "
            "on its inputs and on the model"
        )
    reason = next((l.partition(": ")[2] for l in lines if l.startswith("Explanation: ")), lines[0])
    return ExportError(f"{place}the step cannot be captured: {reason} (--traceback shows all)")


def _trace(error: Optional[Exception]) -> str:
    return "" if error is None else "".join(traceback.format_exception(error))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _raised_by_step(
    module: torch.nn.Module, inputs: Mapping[str, torch.Tensor]
) -> Optional[Exception]:
    """What the step itself raises when it runs, or None; it is run on tensors without values.

    Capture wraps the user's exceptions beyond recognition, and notices a value that is read only
    where it is used. Running on tensors without values raises at the line that reads it.
    """
    states = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    try:
        tensors = [*states.values(), *inputs.values()]
        mode = next((t.fake_mode for t in tensors if hasattr(t, "fake_mode")), None)
        mode = mode or FakeTensorMode(allow_non_fake_inputs=True)
        fakes = {name: _fake(mode, tensor) for name, tensor in states.items()}
        batch = tuple(_fake(mode, tensor) for tensor in inputs.values())
    except Exception:
        return None
    try:
        with mode:
            torch.func.functional_call(module, fakes, batch)
    except NotImplementedError:
        return None  # an op that has no meta kernel
    except Exception as error:
        if isinstance(error, _ON_VALUES) or "fake" not in str(error).lower():
            return error
    return None


def _fake(mode: Any, tensor: torch.Tensor) -> torch.Tensor:
    return tensor if hasattr(tensor, "fake_mode") else mode.from_tensor(tensor)

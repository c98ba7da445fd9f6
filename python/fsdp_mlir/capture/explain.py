"""Turns PyTorch's capture errors into one line: what, where in the user's code, how to mend it."""

from __future__ import annotations

import itertools
import os
import re
import traceback
from typing import Optional

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)

from ..errors import E, ExportError
from ..step.dense import COMPUTES, REMEDY
from ..step.places import FRAME, PYTORCH, at_line, said_location
from .graph.nodes import of_a_library
from .state.without_values import ON_VALUES
from .values import value_checks

_OF_CAPTURE = os.path.join(PYTORCH, "_subclasses", "")

_BRANCH = (
    "the step branches on the value of a tensor; use torch.where, or decide before the step. A branch "
    "that skips what has no elements, as an expert without tokens, can be left out"
)
_BUFFER = (
    "the step reads the buffer {} as a Python value, as a branch does, which an export decides where no "
    "step changes it and the model has its values; where steps change it, choose by torch.where; where "
    "the first batch alone does, as a flag, run the model on one before the TrainingStep is made"
)
_OF_BUFFERS = (
    "the step reads what it computes from the buffer {} alone as a Python value, as a branch does, which "
    "an export decides where no step changes it and the model has its values; choose by torch.where; where "
    "the first batch alone changes it, as a flag, run the model on one before the TrainingStep is made"
)
_NUMBER = (
    "the step reads a tensor's value as a Python number; keep it a tensor. A library that looks for "
    "a size so takes it as an argument (size=, num_classes=), and what one does so with a batch, as an "
    "augmentation, can be done where batches are made"
)
_NUMBER_IN_PYTORCH = "the step reads a tensor's value as a Python number in {}; use what computes the same by tensors"
_EQUAL = (
    "the step asks by torch.equal whether tensors have equal values; ask before the step, or choose by "
    "torch.where"
)
_SIZE = (
    "the step decides by a size that depends on values, as a branch or a loop does; leave out the "
    "case of none, which sums and means of no elements cover, let a loop go over all that there can "
    "be (each expert), or use torch.where"
)
_AS_INTEGER = (
    "the step needs a size or a number that depends on values as one of Python's, as range(n), a pooling "
    "and an interpolation do; give them the largest that there can be, and choose by torch.where"
)
_SHAPE = "the step has a shape that depends on values; shapes are static, use a mask or torch.where"
_COUNTS = (
    "how many counts torch.bincount gives depends on values; give it minlength, a number above all "
    "that are counted"
)
_LEAST_SQUARES = (
    "torch.linalg.lstsq gives residuals of a size that depends on values; take the solution as "
    "torch.linalg.pinv(A) @ B"
)
_SIZED_BY_VALUES = {
    torch.ops.aten.bincount.default: _COUNTS,
    torch.ops.aten.linalg_lstsq.default: _LEAST_SQUARES,
}
_SCRIPT = (
    "the step's TorchScript code branches on the value of a tensor, or reads it as a number; use "
    "torch.where, and keep it a tensor"
)
_SPARSE = f"{COMPUTES}, and {REMEDY}"
_NUMPY = (
    "the step gives a tensor to NumPy, and no Python runs while a plan does; write it, and its "
    "gradient, by torch's operators, or compute it where batches are made"
)
_BYTES = (
    "the step indexes by a tensor of another dtype than indices have here, as by a mask of bytes; "
    "make it one of booleans, as mask.bool() does"
)
_READ_BY_CODE = (
    "the step gives a tensor to compiled code that reads its values: an index that is a list of tensors, "
    "make one tensor by torch.stack; a kernel of your own, make an operator by torch.library.custom_op"
)
_GENERATOR = (
    "the step draws random numbers from a torch.Generator that it makes or seeds, which no plan keeps; "
    "leave out generator=, and the run's own generator is drawn from, or seed it in front of the step"
)
_LEFT = (
    "the step computes with a tensor that an earlier run has left in Python state, as in an object, a "
    "dict or a module that it makes; keep it in an attribute of the model, or make it a buffer; make a "
    "criterion that keeps tensors a part of the model (model.criterion = criterion). What the first step "
    "makes for all, as a module, make before: run the model on a batch"
)
_OF_ANOTHER_RUN = "in tensor_tracker", "Unexpected fake buffer"
_ANOTHERS = (
    "the step writes into a tensor that is none of the model's, as an average of weights beside it is, or "
    "a buffer of a criterion; make that a buffer, the criterion a part of the model (model.criterion = "
    "criterion), or of an average a state of the optimizer (docs/own-loop.md)"
)
_DEVICES = (
    "the step computes with a tensor on a GPU, and is captured on the CPU, wherever its plan runs; take "
    "the device of an input (device=x.device), leave out .cuda(), and make what the model has beside "
    "its parameters a buffer"
)
_NO_GRADIENT = (
    "the step takes the gradient of a tensor that requires none, as in one turn what the parameters "
    "of another compute; give that one by tensor.detach().requires_grad_()"
)
_NOTHING = (
    "the step computes nothing that can be captured; check that the loss depends on its inputs and on "
    "the model"
)
_IN_TORCHSCRIPT = "failed in the TorchScript interpreter"
_AMONG_RANKS = (
    "the step communicates between processes (torch.distributed) by a function that is none of a plan's "
    "(docs/porting.md), or nobody has said among how many; give WORLD_SIZE=N in the environment, or the "
    "model a mesh"
)
# PyTorch's words for what a step does, and who says them: the capture, the step itself where it runs,
# or whichever of the two failed.
_SIGNS = (
    (
        "capture",
        re.compile(
            "mutating a non-functional tensor with a functional tensor"
            "|expected to have an entirely functional graph"
        ),
        E.PYTHON_STATE,
        _ANOTHERS,
    ),
    (
        "either",
        re.compile(r"(two different devices|on the same device).*cuda"),
        E.OPERATOR_REFUSED,
        _DEVICES,
    ),
    (
        "step",
        re.compile("One of the differentiated Tensors does not require grad"),
        E.OPERATOR_REFUSED,
        _NO_GRADIENT,
    ),
    (
        "either",
        re.compile(r"\.numpy\(\) is not supported for tensor subclasses"),
        E.OPERATOR_REFUSED,
        _NUMPY,
    ),
    # Said of masks of bytes too, which eager mode takes, where tensors have no values.
    (
        "step",
        re.compile("tensors used as indices must be long, int, byte or bool"),
        E.OPERATOR_REFUSED,
        _BYTES,
    ),
    # Said of a tensor without values of which PyTorch's C++ reads one.
    (
        "step",
        re.compile("its data is not allocated yet"),
        E.VALUE_DEPENDENT,
        _READ_BY_CODE,
    ),
    (
        "step",
        re.compile("Default process group has not been initialized"),
        E.OPERATOR_REFUSED,
        _AMONG_RANKS,
    ),
    # Where a sparse tensor meets an operator that has no rule for one.
    (
        "either",
        re.compile(r"Sparse(Tensor|Csr|CPU|CooTensor)|[Ss]parse (COO |CSR )?tensor"),
        E.OPERATOR_REFUSED,
        _SPARSE,
    ),
)
# By what Dynamo says that it met.
_REMEDIES = (
    ("data-dependent branching", _BRANCH),
    ("data-dependent assertion", _BRANCH),
    ("tensor.item", _NUMBER),
    ("tensor.tolist", _NUMBER),
    ("data dependent operator", _NUMBER),
    ("dynamic shape operator", _SHAPE),
    ("dynamic slicing", _SHAPE),
)


_OF_ONE_SIZE = (
    "where all pictures have one size, give it in the loss as a constant: image_sizes= or "
    "spatial_shapes=torch.tensor([[height, width]]).expand(pictures, -1)"
)
# Functions that read values of a batch in Python, and what spares the step from it.
_READY_IN_BATCH = {
    "get_rope_index": "compute position_ids by the model's get_rope_index where batches are made, "
    "and give them as an input",
    "image_size_to_num_patches": _OF_ONE_SIZE,  # of LLaVA-NeXT and LLaVA-OneVision
    "resize_positional_embeddings": _OF_ONE_SIZE,  # of SigLIP2
}


class Refusal(ExportError):
    """What a capture stumbled over.

    Attributes:
        line: the user's, or "".
        reason: what is there.
        buffers: those of which Python asks what they hold, or what is computed from them alone.

    Args:
        message: what to say of it, unless that is the reason itself.
    """

    buffers: frozenset[str] = frozenset()

    def __init__(self, kind: Optional[E], line: str, reason: str, message: str = "") -> None:
        super().__init__(kind, at_line(line, message or reason))
        self.line = line
        self.reason = reason


def located(error: ExportError) -> ExportError:
    """`error` with the user's line that led to it in front. What was raised before it is not asked:
    that may have stood in the way of an earlier try."""
    line = said_location("".join(traceback.format_exception(error, chain=False)))
    if not line or type(error) is not ExportError:
        return error
    return ExportError(error.kind, at_line(line, error.message))


def explain_capture_error(error: Exception, own: Optional[Exception]) -> Refusal:
    """What to say of an exception that a capture raised.

    Args:
        error: the exception.
        own: what the step itself raises when it runs (`raised_by_step`), or None.
    """
    refusal = _explain(error, own)
    refusal.buffers = frozenset(getattr(own, "buffers", ()))
    return refusal


def _explain(error: Exception, own: Optional[Exception]) -> Refusal:
    text = str(error)
    line = next(filter(None, map(said_location, [_trace(own), text, _trace(error)])), "")
    if isinstance(own, ExportError):
        return Refusal(own.kind, line, own.message)
    if own is not None and _IN_TORCHSCRIPT in str(own):
        return _failed_in_torchscript(str(own))
    said = {"capture": text, "step": str(own), "either": text if own is None else str(own)}
    for speaker, sign, kind, reason in _SIGNS:
        if sign.search(said[speaker]):
            return Refusal(kind, line, reason)
    if isinstance(own, UnsupportedOperatorException):  # it says nothing of shapes
        return Refusal(E.OPERATOR_REFUSED, line, of_a_library(own.func._schema.name))
    if own is not None and not isinstance(own, ON_VALUES):
        reason = f"the step raises {type(own).__name__}: {_one_line(str(own))}"
        return Refusal(E.STEP_RAISES, line, reason)
    return _asked_for_values(error, own, line) or _said_by_capture(text, line)


def _asked_for_values(error: Exception, own: Optional[Exception], line: str) -> Optional[Refusal]:
    """What to say where Python asked for values; None where it did not."""
    text = str(error)
    for name, remedy in _READY_IN_BATCH.items():
        if isinstance(own, ON_VALUES) and f"in {name}\n" in _trace(own):
            reason = f"{name} reads values of the batch in Python; {remedy}"
            return Refusal(E.VALUE_DEPENDENT, line, reason)
    if isinstance(own, DynamicOutputShapeException) and own.func in _SIZED_BY_VALUES:
        return Refusal(E.VALUE_DEPENDENT, line, _SIZED_BY_VALUES[own.func])
    if isinstance(own, DataDependentOutputException) and own.func is torch.ops.aten.equal.default:
        return Refusal(E.VALUE_DEPENDENT, line, _EQUAL)
    reader = _pytorchs_reader(_trace(own or error))
    if hasattr(own, "buffers") and (own.is_itself or not reader):
        reason = (_BUFFER if own.is_itself else _OF_BUFFERS).format(" and ".join(own.buffers))
        return Refusal(E.VALUE_DEPENDENT, line, reason)
    met = getattr(error, "gb_type", "").lower()
    for sign, remedy in _REMEDIES:
        if sign in met:
            return Refusal(E.VALUE_DEPENDENT, line, remedy)
    if isinstance(own, DynamicOutputShapeException) and "data-dependent expression" in text:
        return Refusal(E.VALUE_DEPENDENT, _where_asked(error) or line, _SIZE)
    if "Could not extract specialized integer" in text:
        return Refusal(E.VALUE_DEPENDENT, _where_asked(error) or line, _AS_INTEGER)
    if isinstance(own or error, DynamicOutputShapeException):
        return Refusal(E.VALUE_DEPENDENT, line, _SHAPE)
    if isinstance(own or error, DataDependentOutputException):
        reason = _NUMBER_IN_PYTORCH.format(reader) if reader else _NUMBER
        return Refusal(E.VALUE_DEPENDENT, line, reason)
    if "data-dependent expression" in text or "unbacked symbols" in text:
        return Refusal(E.VALUE_DEPENDENT, line, _BRANCH)
    return None


def _where_asked(error: Exception) -> str:
    """The user's line that asks for a size, or ""."""
    return said_location(str(error)) or said_location(_trace(error))


def _said_by_capture(text: str, line: str) -> Refusal:
    """What to say of anything else, by PyTorch's own text."""
    if "torch._C.Generator" in text:
        return Refusal(E.PYTHON_STATE, line, _GENERATOR)
    if any(sign in text for sign in _OF_ANOTHER_RUN):
        return Refusal(E.PYTHON_STATE, line, _LEFT)
    lines = [said.strip() for said in text.splitlines() if said.strip()]
    if not lines:
        return Refusal(E.NO_GRADIENT, line, _NOTHING)
    reason = next((l.partition(": ")[2] for l in lines if l.startswith("Explanation: ")), lines[0])
    reason = reason.rstrip(".")
    message = f"the step cannot be captured: {reason} (--traceback shows all)"
    return Refusal(E.CAPTURE_FAILED, line, reason, message)


def _pytorchs_reader(trace: str) -> str:
    """`torch/nn/thing.py:31` where it is PyTorch's own Python that asks for a value, or ""."""
    frames = FRAME.findall(trace)
    for (path, line), (asked, _) in itertools.pairwise(frames):
        of_capture = path.startswith(_OF_CAPTURE)  # `tolist` of its tensors
        if asked == value_checks.__file__ and path.startswith(PYTORCH) and not of_capture:
            return f"torch/{path.removeprefix(PYTORCH)}:{line}"
    return ""


def _failed_in_torchscript(text: str) -> Refusal:
    """What TorchScript's interpreter raises has the line of the scripted code in its text, and of a
    Python exception nothing."""
    line = said_location(text)
    said = _one_line(text.rpartition("Error:")[2])
    if not said:
        return Refusal(E.VALUE_DEPENDENT, line, _SCRIPT)
    reason = f"the step raises in TorchScript: {said}"
    return Refusal(E.STEP_RAISES, line, reason)


def _trace(error: Optional[Exception]) -> str:
    return "" if error is None else "".join(traceback.format_exception(error))


def _one_line(text: str) -> str:
    return " ".join(text.split())

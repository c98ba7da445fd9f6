"""The runtime's own operators that a step may call: their schemas, and what they give of tensors without
values."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch._prims_common import make_contiguous_strides_for

NAMESPACE = "fsdp_mlir"
# As runtime/operators/Operators.def has them.
SCHEMAS = (
    "linear_sum_assignment(Tensor cost, bool maximize) -> (Tensor rows, Tensor columns)",
    "batched_nms(Tensor boxes, Tensor scores, Tensor classes, Tensor? count, float iou_threshold) -> "
    "(Tensor places, Tensor kept)",
)
# What they give differs between ranks, so that a capture knows none of it.
OF_RANKS = ("sum_over_ranks(Tensor own) -> Tensor", "rank() -> Tensor")

_library = torch.library.Library(NAMESPACE, "FRAGMENT")
for _schema in (*SCHEMAS, *OF_RANKS):
    # In this process the runtime may have defined them already.
    if not hasattr(getattr(torch.ops, NAMESPACE), _schema.partition("(")[0]):
        unknown = (torch.Tag.nondeterministic_seeded,) if _schema in OF_RANKS else ()
        _library.define(_schema, tags=unknown)


@torch.library.register_fake(f"{NAMESPACE}::linear_sum_assignment", lib=_library)
def _assignment(cost: torch.Tensor, maximize: bool) -> tuple[torch.Tensor, torch.Tensor]:
    count = min(cost.shape)
    rows, columns = (cost.new_empty(count, dtype=torch.int64) for _ in range(2))
    return rows, columns


@torch.library.register_fake(f"{NAMESPACE}::batched_nms", lib=_library)
def _nms(
    boxes: torch.Tensor,
    scores: torch.Tensor,
    classes: torch.Tensor,
    count: torch.Tensor | None,
    iou_threshold: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        scores.new_empty(scores.shape, dtype=torch.int64),
        scores.new_empty(scores.shape, dtype=torch.bool),
    )


@torch.library.register_fake(f"{NAMESPACE}::sum_over_ranks", lib=_library)
def _sum_over_ranks(own: torch.Tensor) -> torch.Tensor:
    return _unknown(own.shape, own.dtype, own.device)


@torch.library.register_fake(f"{NAMESPACE}::rank", lib=_library)
def _rank() -> torch.Tensor:
    return _unknown((), torch.int64, torch.device("cpu"))


def _unknown(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A row-major tensor of which a capture knows no value. Of torch.empty, and of torch.empty_like of a
    known tensor, it would take for known what the memory happens to hold."""
    strides = make_contiguous_strides_for(shape)
    return torch.empty_strided(shape, strides, dtype=dtype, device=device)


def _gradient_of_sum(_: Any, gradient: torch.Tensor) -> torch.Tensor:
    """Each rank's loss has the sum in it, so that all of their gradients are added up as well."""
    return sum_over_ranks(gradient.contiguous())


torch.library.register_autograd(f"{NAMESPACE}::sum_over_ranks", _gradient_of_sum, lib=_library)

linear_sum_assignment = torch.ops.fsdp_mlir.linear_sum_assignment.default
batched_nms = torch.ops.fsdp_mlir.batched_nms.default
sum_over_ranks = torch.ops.fsdp_mlir.sum_over_ranks.default
rank = torch.ops.fsdp_mlir.rank.default

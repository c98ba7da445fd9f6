"""The runtime's own operators that a step may call: their schemas, and what they give of tensors without
values."""

from __future__ import annotations

import torch

NAMESPACE = "fsdp_mlir"
# As runtime/operators/Operators.def has them.
SCHEMAS = (
    "linear_sum_assignment(Tensor cost, bool maximize) -> (Tensor rows, Tensor columns)",
    "batched_nms(Tensor boxes, Tensor scores, Tensor classes, Tensor? count, float iou_threshold) -> "
    "(Tensor places, Tensor kept)",
)

_library = torch.library.Library(NAMESPACE, "FRAGMENT")
for _schema in SCHEMAS:
    # In this process the runtime may have defined them already.
    if not hasattr(getattr(torch.ops, NAMESPACE), _schema.partition("(")[0]):
        _library.define(_schema)


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


linear_sum_assignment = torch.ops.fsdp_mlir.linear_sum_assignment.default
batched_nms = torch.ops.fsdp_mlir.batched_nms.default

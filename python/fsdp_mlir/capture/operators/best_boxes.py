"""torchvision's `nms` and `batched_nms` by the runtime's operator, whose results are as long as its
operands, and a mask that takes from them what is kept."""

from __future__ import annotations

import contextlib
import sys
from typing import Iterator
from unittest import mock

import torch

from ..graph import own_operators
from .eager_kernels import defined_as


@contextlib.contextmanager
def boxes_by_masks() -> Iterator[None]:
    """Within it, the best boxes are a selection by a mask, and nothing decides by how many there are."""
    boxes, operators = sys.modules.get("torchvision.ops.boxes"), torch.ops.torchvision
    if boxes is None or not hasattr(operators, "nms"):
        yield
        return
    with (
        mock.patch.object(boxes, "batched_nms", batched_nms),
        defined_as({operators.nms.default: nms}),
    ):
        yield


def batched_nms(
    boxes: torch.Tensor, scores: torch.Tensor, idxs: torch.Tensor, iou_threshold: float
) -> torch.Tensor:
    """Places of the boxes that are kept, by falling score."""
    of_values = boxes.detach(), scores.detach(), idxs
    places, kept = own_operators.batched_nms(*of_values, None, iou_threshold)
    return places[kept]


def nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """The same of one class."""
    return batched_nms(dets, scores, torch.zeros_like(scores, dtype=torch.int64), iou_threshold)

"""torchvision's detectors on small maps, with boxes that come with the batch."""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F

from entry import Entry, Tensor, classes, together

SIDE, BOXES, LABELS = 48, 3, 4


def _boxes(n: int) -> Tensor:
    corner = torch.rand(n, BOXES, 2) * 20
    return torch.cat((corner, corner + 5 + torch.rand(n, BOXES, 2) * 20), -1)


BATCH = together(
    x=lambda n: torch.rand(n, 3, SIDE, SIDE), boxes=_boxes, labels=classes(LABELS, BOXES, first=1)
)


def _loss(model: nn.Module, x: Tensor, boxes: Tensor, labels: Tensor) -> Tensor:
    targets = [{"boxes": box, "labels": label} for box, label in zip(boxes, labels)]
    if hasattr(model, "roi_heads") and model.roi_heads.has_mask():
        for target in targets:
            target["masks"] = _inside(target["boxes"])
    return sum(model(list(x), targets).values())


def _inside(boxes: Tensor) -> Tensor:
    """Which points of an image are in each box."""
    y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    left, top, right, bottom = boxes[:, :, None, None].unbind(1)
    return ((x >= left) & (x < right) & (y >= top) & (y < bottom)).to(torch.uint8)


class _Backbone(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, 2, 1), nn.Conv2d(width, width, 3, 2, 1)
        self.out_channels = width

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.first(x)))


class _TwoMaps(_Backbone):
    def __init__(self) -> None:
        super().__init__(8)
        self.out_channels = [8, 8]

    def forward(self, x: Tensor) -> Any:
        first = F.relu(self.first(x))
        return OrderedDict([("0", first), ("1", self.last(first))])


def _anchors(sizes: tuple[int, ...], shapes: tuple[float, ...]) -> Any:
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    return AnchorGenerator((sizes,), (shapes,))


def _retinanet() -> nn.Module:
    from torchvision.models.detection import RetinaNet

    anchors = _anchors((8, 16, 32), (0.5, 1.0, 2.0))
    return RetinaNet(_Backbone(8), LABELS, anchor_generator=anchors, min_size=SIDE, max_size=SIDE)


def _fcos() -> nn.Module:
    from torchvision.models.detection import FCOS

    anchors = _anchors((8,), (1.0,))
    return FCOS(_Backbone(32), LABELS, anchor_generator=anchors, min_size=SIDE, max_size=SIDE)


def _ssd() -> nn.Module:
    from torchvision.models.detection.ssd import SSD, DefaultBoxGenerator

    return SSD(_TwoMaps(), DefaultBoxGenerator([[2], [2]]), (SIDE, SIDE), LABELS)


def _of_regions(kind: str, **more: Any) -> nn.Module:
    from torchvision.models import detection
    from torchvision.ops import MultiScaleRoIAlign

    return getattr(detection, kind)(
        _Backbone(8),
        rpn_anchor_generator=_anchors((8, 16, 32), (0.5, 1.0, 2.0)),
        box_roi_pool=MultiScaleRoIAlign(["0"], 3, 2),
        min_size=SIDE,
        max_size=SIDE,
        # All of them: of fewer a step draws others than eager mode, which counts them first.
        rpn_batch_size_per_image=4096,
        box_batch_size_per_image=4096,
        rpn_pre_nms_top_n_train=100,
        rpn_post_nms_top_n_train=50,
        **more,
    )


def _mask_rcnn() -> nn.Module:
    from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
    from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
    from torchvision.ops import MultiScaleRoIAlign

    return _of_regions(
        "MaskRCNN",
        box_predictor=FastRCNNPredictor(1024, LABELS),
        mask_roi_pool=MultiScaleRoIAlign(["0"], 4, 2),
        mask_head=MaskRCNNHeads(8, (8,), 1),
        mask_predictor=MaskRCNNPredictor(8, 8, LABELS),
    )


MODELS: dict[str, Callable[[], Entry]] = {
    f"torchvision/{name}": lambda make=make: Entry(make(), BATCH, _loss)
    for name, make in {
        "faster-rcnn": functools.partial(_of_regions, "FasterRCNN", num_classes=LABELS),
        "mask-rcnn": _mask_rcnn,
        "fcos": _fcos,
        "retinanet": _retinanet,
        "ssd": _ssd,
    }.items()
}

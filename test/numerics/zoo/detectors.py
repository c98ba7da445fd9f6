"""torchvision's detectors on small maps, with boxes that come with the batch."""

from __future__ import annotations

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
    return sum(model(list(x), targets).values())


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


def _faster_rcnn() -> nn.Module:
    from torchvision.models.detection import FasterRCNN
    from torchvision.ops import MultiScaleRoIAlign

    return FasterRCNN(
        _Backbone(8),
        num_classes=LABELS,
        rpn_anchor_generator=_anchors((8, 16, 32), (0.5, 1.0, 2.0)),
        box_roi_pool=MultiScaleRoIAlign(["0"], 3, 2),
        min_size=SIDE,
        max_size=SIDE,
    )


MODELS: dict[str, Callable[[], Entry]] = {
    f"torchvision/{name}": lambda make=make: Entry(make(), BATCH, _loss)
    for name, make in {
        "faster-rcnn": _faster_rcnn,
        "fcos": _fcos,
        "retinanet": _retinanet,
        "ssd": _ssd,
    }.items()
}

"""Tests that torchvision's nms and batched_nms keep the same boxes in a plan, of as many as values say."""

from __future__ import annotations

import pathlib

import pytest
import torch
import torchvision
from exporting import export
from selected_rows import MASKS, Model, batch, compare, step_of
from torch import Tensor

from support import own_operators


def boxes_of(tensor: Tensor) -> Tensor:
    """Some of which are nearly the same."""
    corner, size = tensor[:, :2].tanh() * 4, tensor[:, 2:4].sigmoid() * 8 + 1
    return torch.cat((corner, corner + size), 1)


def best(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    h = model.layer(x)
    boxes, scores = boxes_of(h)[m], h.sum(1)[m]
    kept = torchvision.ops.nms(boxes, scores, 0.3)
    return (boxes[kept] * torch.arange(1, len(kept) + 1)[:, None]).square().sum()


def best_of_each_class(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    h = model.layer(x)
    boxes, scores, kinds = boxes_of(h)[m], h.sum(1)[m], (x[:, 0] > 0).long()[m]
    kept = torchvision.ops.batched_nms(boxes, scores, kinds, 0.1)[:3]
    return (h[m][kept] * torch.arange(1, len(kept) + 1)[:, None]).square().sum()


@pytest.mark.parametrize("loss", [best, best_of_each_class])
def test_boxes_are_torchvisions(loss: object, tmp_path: pathlib.Path) -> None:
    own_operators.load()
    step = step_of(loss)
    exported = export(step, tmp_path)
    for mask in MASKS:
        compare(step, exported, batch(mask))


@pytest.mark.parametrize("count", [0, 1, 30, 999, 1100])
def test_operator_is_torchvisions(count: int) -> None:
    """Also with more than a thousand boxes, of which torchvision compares each class by itself, and with
    padding behind them."""
    own_operators.load()
    generator = torch.Generator().manual_seed(count)
    h = torch.randn(count + 7, 5, generator=generator)
    scores, kinds = h[:, 4].mul(4).round(), torch.randint(3, (count + 7,), generator=generator)
    operator = torch.ops.fsdp_mlir.batched_nms
    places, kept = operator(boxes_of(h), scores, kinds, torch.tensor(count), 0.4)
    wanted = torchvision.ops.batched_nms(boxes_of(h)[:count], scores[:count], kinds[:count], 0.4)
    assert torch.equal(places[kept], wanted)

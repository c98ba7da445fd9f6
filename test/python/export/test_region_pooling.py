"""Tests that torchvision's operators as tensor code have the values of its kernels."""

from typing import Any

import pytest
import torch
from torchvision.ops import deform_conv2d as eager_convolution
from torchvision.ops import roi_align as eager

from fsdp_mlir.capture.operators.deformable_convolution import deform_conv2d
from fsdp_mlir.capture.operators.region_pooling import ps_roi_align, roi_align, roi_pool

# In a map, over its edges, larger than it, outside it, and empty.
BOXES = [[1, 2, 6, 7], [-3, -3, 4, 2], [-9, -9, 30, 30], [40, 40, 50, 50], [2, 2, 2, 2]]


@pytest.mark.quick
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [-1, 2])
def test_values_and_gradients_of_the_kernel(samples: int, aligned: bool) -> None:
    torch.manual_seed(0)
    maps = torch.randn(2, 3, 12, 10, dtype=torch.float64, requires_grad=True)
    regions = torch.tensor([[i % 2, *box] for i, box in enumerate(BOXES)], dtype=torch.float64)
    settings = (0.8, 3, 4, samples, aligned)
    ours = roi_align(maps, regions, *settings)
    theirs = eager(maps, regions, (3, 4), 0.8, samples, aligned)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)
    weights = torch.randn_like(theirs)
    gradients = [torch.autograd.grad(y, maps, weights)[0] for y in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-14)


@pytest.mark.parametrize("samples", [-1, 2])
def test_each_bin_has_channels_of_its_own(samples: int) -> None:
    torch.manual_seed(0)
    maps = torch.randn(2, 24, 12, 10, dtype=torch.float64, requires_grad=True)
    boxes = [*BOXES[:-1], [1, 2, 3, 4]]  # of an empty one the kernel divides by zero
    regions = torch.tensor([[i % 2, *box] for i, box in enumerate(boxes)], dtype=torch.float64)
    settings = (0.8, 3, 4, samples)
    kernel = torch.ops.torchvision.ps_roi_align
    (ours, channels), (theirs, wanted) = (
        f(maps, regions, *settings) for f in (ps_roi_align, kernel)
    )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)
    assert torch.equal(channels, wanted)
    check_gradients(ours, theirs, [maps])


def test_maxima_are_those_of_the_kernel() -> None:
    """Of several elements that are the largest, the first one has the gradient."""
    torch.manual_seed(0)
    maps = torch.randint(5, (2, 3, 12, 10), dtype=torch.float64).requires_grad_()
    boxes = [*BOXES, [0.5, 1.5, 2.5, 7.5], [8, 8, 9, 9]]
    regions = torch.tensor([[i % 2, *box] for i, box in enumerate(boxes)], dtype=torch.float64)
    kernel = torch.ops.torchvision.roi_pool
    for settings in ((1.0, 3, 4), (0.7, 2, 2), (0.25, 5, 5)):
        (ours, place), (theirs, wanted) = (f(maps, regions, *settings) for f in (roi_pool, kernel))
        assert torch.equal(ours, theirs) and torch.equal(place, wanted)
        check_gradients(ours, theirs, [maps])


@pytest.mark.parametrize(
    "groups, offset_groups, options",
    [
        (1, 1, {}),
        (2, 1, {"padding": (2, 1), "dilation": (1, 2)}),
        (1, 2, {"stride": (2, 1), "padding": 1}),
        (3, 6, {"stride": 2, "padding": 3, "dilation": 2}),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_a_deformable_convolution_is_the_kernels(
    groups: int, offset_groups: int, options: dict[str, Any], masked: bool
) -> None:
    torch.manual_seed(0)
    new = lambda *shape: torch.randn(*shape, dtype=torch.float64).requires_grad_()
    input, weight, bias = new(2, 6, 9, 8), new(6, 6 // groups, 3, 2), new(6)
    pair = lambda name, default: torch.nn.modules.utils._pair(options.get(name, default))
    stride, padding, dilation = pair("stride", 1), pair("padding", 0), pair("dilation", 1)
    high, wide = (
        (size + 2 * pad - step * (kernel - 1) - 1) // move + 1
        for size, pad, step, kernel, move in zip((9, 8), padding, dilation, (3, 2), stride)
    )
    offset, mask = new(2, offset_groups * 12, high, wide), new(2, offset_groups * 6, high, wide)
    moved = offset * 3  # past the edges too
    theirs = eager_convolution(
        input, moved, weight, bias, stride, padding, dilation, mask if masked else None
    )
    ours = deform_conv2d(
        *(input, weight, moved, mask if masked else new(2, 1), bias),
        *(*stride, *padding, *dilation, groups, offset_groups, masked),
    )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    check_gradients(ours, theirs, [input, weight, offset, bias, *([mask] if masked else [])])


def check_gradients(ours: torch.Tensor, theirs: torch.Tensor, of: list[torch.Tensor]) -> None:
    weights = torch.randn_like(theirs)
    found, expected = (
        torch.autograd.grad(y, of, weights, retain_graph=True) for y in (ours, theirs)
    )
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)

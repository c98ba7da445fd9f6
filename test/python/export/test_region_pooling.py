"""Tests that regions pooled by matrix products have the values of torchvision's kernel."""

import pytest
import torch
from torchvision.ops import roi_align as eager

from fsdp_mlir.capture.region_pooling import roi_align

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

"""`torchvision.ops.roi_align` as matrix products, which a plan can hold and differentiate."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterator

import torch

from .eager_kernels import defined_as


@contextlib.contextmanager
def tensor_code_of_torchvision() -> Iterator[None]:
    """Within it, `torchvision.ops.roi_align` is tensor code: the same values as of its kernel, with
    sums in another order."""
    module = sys.modules.get("torchvision.ops.roi_align")
    if not hasattr(torch.ops.torchvision, "roi_align"):
        yield
        return
    # What torchvision has for itself, without what compiles it at its first call.
    theirs = getattr(getattr(module, "_roi_align", None), "__wrapped__", None)

    def code(input: torch.Tensor, rois: torch.Tensor, *settings: Any) -> torch.Tensor:
        _, high, wide, samples, _ = settings
        rois = rois.detach()  # the kernel gives them no gradient
        # It gathers four values for each sample, which is less where maps are large and samples few.
        few = 0 < samples and 4 * high * wide * samples**2 < input.shape[-2] * input.shape[-1]
        return (theirs if theirs and few else roi_align)(input, rois, *settings)

    with defined_as({torch.ops.torchvision.roi_align.default: code}):
        yield


def roi_align(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> torch.Tensor:
    """Means over the bins of regions of maps, as torchvision's kernel takes them.

    A bilinear sample is a sum over rows of sums over columns, and so is the mean of a bin's
    samples: `rows @ map @ columns`, with the weights of all samples of a bin added up.

    Args:
        input: maps, [N, C, H, W].
        rois: [K, 5], each the number of its map, and x1, y1, x2, y2.
    Returns:
        [K, C, pooled_height, pooled_width].
    """
    offset = 0.5 if aligned else 0.0
    x1, y1, x2, y2 = (rois[:, 1:] * spatial_scale - offset).unbind(1)
    least = None if aligned else 1.0
    rows = _weights(y1, y2, pooled_height, input.shape[2], sampling_ratio, least)
    columns = _weights(x1, x2, pooled_width, input.shape[3], sampling_ratio, least)
    maps = input.index_select(0, rois[:, 0].long())
    return rows[:, None] @ maps @ columns[:, None].mT


def _weights(
    begin: torch.Tensor, end: torch.Tensor, bins: int, size: int, samples: int, least: Any
) -> torch.Tensor:
    """How much each of `size` rows of a map counts in each bin of each region, [K, bins, size]."""
    length = end - begin
    if least is not None:
        length = length.clamp(min=least)
    bin_length = (length / bins)[:, None, None]
    # As many samples in a bin as it has rows, where their number is not given.
    taken = torch.full_like(bin_length, samples) if samples > 0 else bin_length.ceil()
    each = torch.arange(samples if samples > 0 else size, device=begin.device)
    places = begin[:, None, None] + torch.arange(bins, device=begin.device)[:, None] * bin_length
    places = places + (each + 0.5) * (bin_length / taken)  # [K, bins, samples]
    # Samples outside the map count as zero, and those at its edge as the edge.
    counted = (each < taken) & (places >= -1) & (places <= size)
    places = places.clamp(0, size - 1)
    lower = places.floor()
    above = places - lower
    row = torch.arange(size, device=begin.device)
    parts = torch.where(row == lower[..., None], 1 - above[..., None], 0) + torch.where(
        row == lower[..., None] + 1, above[..., None], 0
    )
    weights = torch.where(counted[..., None], parts, 0).sum(-2)
    return weights / taken.clamp(min=1)

"""Pooling of regions as torchvision has it, by what a plan can hold and differentiate: `roi_align`
and `ps_roi_align` as matrix products, `roi_pool` as maxima."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Iterator

import torch

from .deformable_convolution import deform_conv2d
from .eager_kernels import defined_as


@contextlib.contextmanager
def tensor_code_of_torchvision() -> Iterator[None]:
    """Within it, operators of torchvision are tensor code: the same values as of their kernels, with
    sums in another order."""
    operators = torch.ops.torchvision
    if not hasattr(operators, "roi_align"):
        yield
        return
    code = {
        operators.roi_align.default: _roi_align(),
        operators.ps_roi_align.default: ps_roi_align,
        operators.roi_pool.default: roi_pool,
        operators.deform_conv2d.default: deform_conv2d,
    }
    with defined_as(code):
        yield


def _roi_align() -> Callable[..., torch.Tensor]:
    """The tensor code for `roi_align`: ours, or what torchvision has beside its kernel."""
    module = sys.modules.get("torchvision.ops.roi_align")
    # What torchvision has for itself, without what compiles it at its first call.
    theirs = getattr(getattr(module, "_roi_align", None), "__wrapped__", None)

    def code(input: torch.Tensor, rois: torch.Tensor, *settings: Any) -> torch.Tensor:
        _, high, wide, samples, _ = settings
        rois = rois.detach()  # the kernel gives them no gradient
        # It gathers four values for each sample, which is less where maps are large and samples few.
        few = 0 < samples and 4 * high * wide * samples**2 < input.shape[-2] * input.shape[-1]
        return (theirs if theirs and few else roi_align)(input, rois, *settings)

    return code


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
    bins = pooled_height, pooled_width
    maps, rows, columns = _of_regions(input, rois, spatial_scale, bins, sampling_ratio, aligned)
    return rows[:, None] @ maps @ columns[:, None].mT


def ps_roi_align(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `roi_align`, where each bin has channels of its own: [K, C / bins, pooled_height,
    pooled_width], and which channel each of these is of."""
    high, wide = input.shape[2:]
    bins = pooled_height, pooled_width
    maps, rows, columns = _of_regions(
        input, rois.detach(), spatial_scale, bins, sampling_ratio, aligned=True
    )
    maps = maps.reshape(len(rois), -1, pooled_height, pooled_width, high, wide)
    sums = (maps * rows[:, None, :, None, :, None]).sum(-2)
    result = (sums * columns[:, None, None]).sum(-1)
    channels = torch.arange(input.shape[1], dtype=torch.int32, device=input.device)
    channels = channels.reshape(1, -1, pooled_height, pooled_width)
    return result, channels.expand(result.shape)


def roi_pool(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Maxima over the bins of regions of maps, [K, C, pooled_height, pooled_width], and where in its
    map each is."""
    high, wide = input.shape[2:]
    x1, y1, x2, y2 = _rounded(rois.detach()[:, 1:] * spatial_scale).unbind(1)
    rows = _rows_of_bins(y1, y2, pooled_height, high)
    columns = _rows_of_bins(x1, x2, pooled_width, wide)
    maps = input.index_select(0, rois[:, 0].long())
    inner = maps[:, :, :, None].masked_fill(~columns[:, None, None], -torch.inf)
    of_rows, column = inner.max(-1)  # over W of [K, C, H, bins, W]
    outer = of_rows[:, :, None].masked_fill(~rows[:, None, :, :, None], -torch.inf)
    result, row = outer.max(-2)  # over H of [K, C, bins, H, bins]
    is_empty = ~(rows.any(-1)[:, :, None] & columns.any(-1)[:, None])[:, None]
    place = row * wide + column.gather(2, row)
    place = torch.where(is_empty, -1, place).to(torch.int32)
    return torch.where(is_empty, 0, result), place


def _rounded(value: torch.Tensor) -> torch.Tensor:
    """Rounds to the nearest whole number, and halves away from zero, as C++ does."""
    return torch.where(value < 0, (value - 0.5).ceil(), (value + 0.5).floor())


def _rows_of_bins(begin: torch.Tensor, end: torch.Tensor, bins: int, size: int) -> torch.Tensor:
    """Whether each of `size` rows of a map is in each bin of each region, [K, bins, size]."""
    length = ((end - begin + 1).clamp(min=1) / bins)[:, None]
    number = torch.arange(bins, device=begin.device)
    first = ((number * length).floor() + begin[:, None]).clamp(0, size)
    behind = (((number + 1) * length).ceil() + begin[:, None]).clamp(0, size)
    row = torch.arange(size, device=begin.device)
    return (row >= first[..., None]) & (row < behind[..., None])


def _of_regions(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    bins: tuple[int, int],
    samples: int,
    aligned: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The map of each region, [K, C, H, W], and how much its rows and its columns count in the bins
    down and across, [K, bins, H] and [K, bins, W]."""
    x1, y1, x2, y2 = (rois[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)).unbind(1)
    least = None if aligned else 1.0
    rows = _weights(y1, y2, bins[0], input.shape[2], samples, least)
    columns = _weights(x1, x2, bins[1], input.shape[3], samples, least)
    return input.index_select(0, rois[:, 0].long()), rows, columns


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

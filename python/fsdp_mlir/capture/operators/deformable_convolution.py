"""`torchvision.ops.deform_conv2d` as gathers and a matrix product, which a plan can hold and
differentiate."""

from __future__ import annotations

import torch


def deform_conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    bias: torch.Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> torch.Tensor:
    """A convolution whose kernel's places are moved, as torchvision's kernel computes it.

    Args:
        input: [N, C, H, W].
        weight: [O, C / groups, kernel_h, kernel_w].
        offset: how far each place is moved, [N, offset_groups * places * 2, out_h, out_w], of each
            place down and to the right.
        mask: what its sample is multiplied by, [N, offset_groups * places, out_h, out_w], where
            `use_mask`.
    Returns:
        [N, O, out_h, out_w].
    """
    batch, channels, high, wide = input.shape
    kernel_h, kernel_w = weight.shape[2:]
    out_h, out_w = offset.shape[2:]
    places = kernel_h * kernel_w
    moved = offset.view(batch, offset_groups, kernel_h, kernel_w, 2, out_h, out_w)
    y = moved[..., 0, :, :] + _grid(input, kernel_h, dilation_h, out_h, stride_h, pad_h, (1, 3))
    x = moved[..., 1, :, :] + _grid(input, kernel_w, dilation_w, out_w, stride_w, pad_w, (2, 4))
    maps = input.reshape(batch, offset_groups, channels // offset_groups, high * wide)
    samples = _sampled(maps, high, wide, y.flatten(2), x.flatten(2))
    if use_mask:
        samples = samples * mask.reshape(batch, offset_groups, 1, places * out_h * out_w)
    columns = samples.reshape(batch, groups, channels // groups * places, out_h * out_w)
    kernels = weight.reshape(groups, weight.shape[0] // groups, -1)
    result = (kernels @ columns).reshape(batch, weight.shape[0], out_h, out_w)
    return result + bias[:, None, None]


def _grid(
    like: torch.Tensor,
    kernel: int,
    dilation: int,
    out: int,
    stride: int,
    pad: int,
    dims: tuple[int, int],
) -> torch.Tensor:
    """Where the places of a kernel lie before they are moved, in one direction: the kernel's places
    and the outputs are dimensions `dims` of five."""
    along = torch.arange(kernel, device=like.device) * dilation - pad
    begin = torch.arange(out, device=like.device) * stride
    shape = [1] * 5
    shape[dims[0]], shape[dims[1]] = kernel, out
    return (along[:, None] + begin).to(like.dtype).reshape(shape)


def _sampled(
    maps: torch.Tensor, high: int, wide: int, y: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    """Bilinear samples of `maps`, [N, G, C, high * wide], at [N, G, P]; outside a map it is zero."""
    top, left = y.floor(), x.floor()
    samples: torch.Tensor | float = 0.0
    for row, row_part in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, column_part in ((left, 1 - (x - left)), (left + 1, x - left)):
            is_inside = (row >= 0) & (row < high) & (column >= 0) & (column < wide)
            index = row.clamp(0, high - 1) * wide + column.clamp(0, wide - 1)
            index = index.long()[:, :, None].expand(-1, -1, maps.shape[2], -1)
            part = torch.where(is_inside, row_part * column_part, 0)[:, :, None]
            samples = samples + maps.gather(3, index) * part
    return samples

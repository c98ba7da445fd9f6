"""Detectors and segmenters of Hugging Face's transformers with their own losses, which match what a model
finds with what there is by SciPy's linear_sum_assignment."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch
from torch import nn

from boxes_and_maps import BOXES, DETR, LABELS, PAIRS, SMALL, SMALL_BOXES, STAGES
from boxes_and_maps import Row, build, resnet, swin
from entry import Entry, Tensor, classes, numbers, together

MASKS = together(
    pixel_values=numbers(3, 64, 64),
    masks=lambda n: (torch.rand(n, PAIRS, 64, 64) > 0.5).float(),
    kinds=classes(LABELS, PAIRS),
)
QUERIES = dict(
    d_model=32,
    encoder_ffn_dim=24,
    decoder_ffn_dim=24,
    encoder_layers=1,
    decoder_layers=2,
    num_queries=12,
    num_denoising=4,
)
# Two groups of queries, each of which is matched with all boxes.
GROUPS = dict(
    d_model=32,
    decoder_ffn_dim=24,
    decoder_layers=2,
    decoder_self_attention_heads=2,
    decoder_cross_attention_heads=2,
    num_queries=6,
    group_detr=2,
)


def of_boxes(model: nn.Module, boxes: Tensor, kinds: Tensor, **inputs: Tensor) -> Tensor:
    """Each image has boxes, and each box is of a kind."""
    labels = [{"class_labels": kind, "boxes": box} for kind, box in zip(kinds, boxes)]
    return model(**inputs, labels=labels).loss


def of_masks(model: nn.Module, masks: Tensor, kinds: Tensor, **inputs: Tensor) -> Tensor:
    """Each image has masks, and each mask is of a kind."""
    return model(**inputs, mask_labels=list(masks), class_labels=list(kinds)).loss


def _rt_backbone() -> Any:
    from transformers import RTDetrResNetConfig

    sizes = dict(embedding_size=8, hidden_sizes=[8, 16, 32, 32], depths=[1, 1, 1, 1])
    return RTDetrResNetConfig(**sizes, layer_type="basic", out_features=STAGES[1:])


def _rt(**more: Any) -> dict[str, Any]:
    return dict(
        QUERIES,
        encoder_hidden_dim=32,
        encoder_in_channels=[16, 32, 32],
        decoder_in_channels=[32, 32, 32],
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        **more,
    )


def _lw_detr() -> dict[str, Any]:
    from transformers import LwDetrViTConfig

    sizes = dict(SMALL, image_size=64, pretrain_image_size=64, num_windows=4)
    return dict(
        backbone_config=LwDetrViTConfig(**sizes, out_features=["stage2"]),
        projector_scale_factors=[1.0],
        **GROUPS,
    )


def _mask2former() -> dict[str, Any]:
    return dict(
        backbone_config=swin(),
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=16,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=2,
        dim_feedforward=16,
        num_queries=6,
        train_num_points=32,
    )


def _maskformer() -> dict[str, Any]:
    from transformers import DetrConfig

    detr = DetrConfig(**DETR, backbone_config=resnet(1))
    return dict(
        backbone_config=swin(),
        decoder_config=detr.to_dict(),
        fpn_feature_size=32,
        mask_feature_size=32,
    )


ROWS: dict[str, Row] = {
    "detr": (
        *("DetrForObjectDetection", BOXES, of_boxes),
        lambda: dict(DETR, backbone_config=resnet(1), auxiliary_loss=True),
    ),
    "conditional-detr": (
        *("ConditionalDetrForObjectDetection", BOXES, of_boxes),
        lambda: dict(DETR, backbone_config=resnet(1)),
    ),
    "dab-detr": (
        *("DabDetrForObjectDetection", BOXES, of_boxes),
        lambda: dict(
            {k: v for k, v in DETR.items() if k != "d_model"},
            hidden_size=32,
            backbone_config=resnet(1),
        ),
    ),
    "deformable-detr": (
        *("DeformableDetrForObjectDetection", BOXES, of_boxes),
        lambda: dict(DETR, backbone_config=resnet(3), num_feature_levels=3),
    ),
    "table-transformer": (
        *("TableTransformerForObjectDetection", BOXES, of_boxes),
        lambda: dict(DETR, backbone_config=resnet(1)),
    ),
    "yolos": (
        *("YolosForObjectDetection", SMALL_BOXES, of_boxes),
        lambda: dict(
            SMALL, intermediate_size=24, image_size=(32, 32), patch_size=8, num_detection_tokens=6
        ),
    ),
    "rt-detr": (
        *("RTDetrForObjectDetection", BOXES, of_boxes),
        lambda: _rt(backbone_config=_rt_backbone()),
    ),
    "rt-detr-v2": (
        *("RTDetrV2ForObjectDetection", BOXES, of_boxes),
        lambda: _rt(backbone_config=_rt_backbone()),
    ),
    "lw-detr": ("LwDetrForObjectDetection", BOXES, of_boxes, _lw_detr),
    "maskformer": ("MaskFormerForInstanceSegmentation", MASKS, of_masks, _maskformer),
    "mask2former": ("Mask2FormerForUniversalSegmentation", MASKS, of_masks, _mask2former),
    "eomt": (
        *("EomtForUniversalSegmentation", MASKS, of_masks),
        lambda: dict(
            SMALL,
            image_size=64,
            patch_size=16,
            num_queries=6,
            num_blocks=1,
            num_upscale_blocks=1,
            num_register_tokens=1,
            train_num_points=32,
        ),
    ),
}


MODELS: dict[str, Callable[[], Entry]] = {
    f"transformers/matched-pairs/{name}": functools.partial(build, row)
    for name, row in ROWS.items()
}

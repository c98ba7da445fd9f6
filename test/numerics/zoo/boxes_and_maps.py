"""Models of Hugging Face's transformers that find boxes, masks, depths and joints, or what comes next.

Here predictions and targets are paired by their places; `matched_pairs` has the losses that look for the best pairs.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F

from entry import Entry, Tensor, Tensors, classes, numbers, own_loss, together

PAIRS, LABELS = 3, 3
SMALL = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2)
DEEPER = {**SMALL, "num_hidden_layers": 4}
STAGES = ["stage1", "stage2", "stage3", "stage4"]
DETR = dict(
    d_model=32,
    encoder_layers=1,
    decoder_layers=2,
    encoder_ffn_dim=24,
    decoder_ffn_dim=24,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    num_queries=6,
)
NECK = dict(
    reassemble_hidden_size=16,
    neck_hidden_sizes=[8, 8, 16, 16],
    fusion_hidden_size=16,
    head_hidden_size=8,
)


def _images(side: int, **more: Callable[[int], Any]) -> Callable[[int], Tensors]:
    return together(pixel_values=numbers(3, side, side), **more)


def _boxes(n: int) -> Tensor:
    middles, sizes = torch.rand(n, PAIRS, 2) * 0.5 + 0.2, torch.rand(n, PAIRS, 2) * 0.2 + 0.05
    return torch.cat((middles, sizes), -1)


def _of_kinds(logits: Tensor, kinds: Tensor) -> Tensor:
    """The first predictions have kinds, and all others have none, which is the last one."""
    wanted = torch.full(logits.shape[:2], logits.shape[-1] - 1)
    wanted[:, :PAIRS] = kinds
    return F.cross_entropy(logits.transpose(1, 2), wanted)


def _of_boxes(model: nn.Module, boxes: Tensor, kinds: Tensor, **inputs: Tensor) -> Tensor:
    from torchvision.ops import box_convert, generalized_box_iou

    out = model(**inputs)
    found = out.pred_boxes[:, :PAIRS]
    corners = (box_convert(b.flatten(0, 1), "cxcywh", "xyxy") for b in (found, boxes))
    overlap = generalized_box_iou(*corners).diag().mean()
    return _of_kinds(out.logits, kinds) + 5 * F.l1_loss(found, boxes) - 2 * overlap


def _of_words(model: nn.Module, boxes: Tensor, **inputs: Tensor) -> Tensor:
    out = model(input_ids=inputs["words"].flatten(0, 1), pixel_values=inputs["pixel_values"])
    return F.l1_loss(out.pred_boxes[:, :PAIRS], boxes) + out.logits.sigmoid().mean()


def _of_points(model: nn.Module, masks: Tensor, **inputs: Tensor) -> Tensor:
    out = model(**inputs, multimask_output=True)
    return F.binary_cross_entropy_with_logits(out.pred_masks, masks) + out.iou_scores.mean()


def _of_field(name: str) -> Callable[..., Tensor]:
    """Of models without a loss: the distance of a result from what is wanted."""

    def loss(model: nn.Module, wanted: Tensor, **inputs: Tensor) -> Tensor:
        return F.l1_loss(getattr(model(**inputs), name), wanted)

    return loss


def _squares(model: nn.Module, **inputs: Tensor) -> Tensor:
    """Of models without a loss: the squares of all that they compute."""
    parts = [part for part in model(**inputs).values() if isinstance(part, Tensor)]
    return sum(part.square().mean() for part in parts if part.requires_grad)


def resnet(outputs: int) -> Any:
    from transformers import ResNetConfig

    sizes = dict(embedding_size=8, hidden_sizes=[8, 16, 32, 32], depths=[1, 1, 1, 1])
    return ResNetConfig(**sizes, layer_type="basic", out_features=STAGES[-outputs:])


def swin() -> Any:
    from transformers import SwinConfig

    sizes = dict(embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2])
    return SwinConfig(image_size=64, **sizes, window_size=4, out_features=STAGES)


def _dinov2() -> Any:
    from transformers import Dinov2Config

    sizes = dict(image_size=28, patch_size=14, out_features=STAGES)
    return Dinov2Config(**DEEPER, **sizes, reshape_hidden_states=False)


def _joints(**fields: Any) -> Any:
    from transformers import VitPoseBackboneConfig

    sizes = dict(image_size=[32, 16], patch_size=[8, 8], out_indices=[2])
    return VitPoseBackboneConfig(**SMALL, **sizes, **fields)


def _points() -> Any:
    from transformers import SuperPointConfig

    sizes = dict(encoder_hidden_sizes=[8, 8, 8, 8], decoder_hidden_size=16)
    return SuperPointConfig(**sizes, descriptor_decoder_dim=16, max_keypoints=8)


def _vitdet() -> Any:
    from transformers import VitDetConfig

    sizes = dict(num_channels=4, image_size=32, pretrain_image_size=32, patch_size=16)
    return VitDetConfig(**SMALL, **sizes, out_features=["stage2"])


def _sapiens(kind: str, **head: Any) -> Row:
    fields = dict(
        intermediate_size=24,
        image_size=32,
        patch_size=8,
        num_key_value_attention_heads=1,
        num_first_full_attention_layers=1,
        num_last_full_attention_layers=1,
        num_register_tokens=1,
        head_config=dict(upsample_out_channels=[8], conv_out_channels=[8], **head),
    )
    return f"Sapiens2For{kind}", _images(32), _squares, lambda: {**SMALL, **fields}


CLIP = dict(
    text_config=dict(
        SMALL,
        vocab_size=64,
        intermediate_size=24,
        max_position_embeddings=16,
        bos_token_id=1,
        eos_token_id=2,
    ),
    vision_config=dict(SMALL, intermediate_size=24, image_size=32, patch_size=8),
    projection_dim=16,
)
SAM = dict(
    vision_config=dict(
        **SMALL,
        output_channels=16,
        num_pos_feats=8,
        image_size=64,
        patch_size=16,
        window_size=2,
        global_attn_indexes=[1],
        mlp_dim=24,
    ),
    prompt_encoder_config=dict(
        hidden_size=16, image_size=64, image_embedding_size=4, mask_input_channels=4
    ),
    mask_decoder_config=dict(**SMALL, mlp_dim=24, iou_head_hidden_dim=16),
)
TIMES = dict(SMALL, intermediate_size=16, head_dim=8, patch_length=8)
BOXES = _images(64, boxes=_boxes, kinds=classes(LABELS, PAIRS))
SMALL_BOXES = _images(32, boxes=_boxes, kinds=classes(LABELS, PAIRS))
DEPTHS = _images(56, wanted=numbers(56, 56))
HEATS = together(pixel_values=numbers(3, 32, 16), wanted=numbers(17, 16, 8))
MAPS = _images(64, labels=classes(LABELS, 64, 64))


def _of_times(model: nn.Module, past: Tensor, future: Tensor) -> Tensor:
    return model(past_values=list(past), freq=[0] * len(past), future_values=future).loss


# Name: class, batch, loss, and what makes the fields of the configuration.
Row = tuple[str, Callable[[int], Tensors], Callable[..., Tensor], Callable[[], dict[str, Any]]]
ROWS: dict[str, Row] = {
    "detr": (
        *("DetrForObjectDetection", BOXES, _of_boxes),
        lambda: dict(DETR, backbone_config=resnet(1)),
    ),
    "conditional-detr": (
        *("ConditionalDetrForObjectDetection", BOXES, _of_boxes),
        lambda: dict(DETR, backbone_config=resnet(1)),
    ),
    "deformable-detr": (
        *("DeformableDetrForObjectDetection", BOXES, _of_boxes),
        lambda: dict(DETR, backbone_config=resnet(3), num_feature_levels=3),
    ),
    "detr-masks": (
        *("DetrForSegmentation", _images(64), _squares),
        lambda: dict(
            {**DETR, "encoder_attention_heads": 8, "decoder_attention_heads": 8},
            backbone_config=resnet(4),
        ),
    ),
    "table-transformer": (
        *("TableTransformerForObjectDetection", BOXES, _of_boxes),
        lambda: dict(DETR, backbone_config=resnet(1)),
    ),
    "yolos": (
        *("YolosForObjectDetection", SMALL_BOXES, _of_boxes),
        lambda: dict(
            SMALL, intermediate_size=24, image_size=(32, 32), patch_size=8, num_detection_tokens=6
        ),
    ),
    "owlvit": (
        "OwlViTForObjectDetection",
        _images(32, boxes=_boxes, words=classes(60, 2, 6, first=3)),
        *(_of_words, lambda: CLIP),
    ),
    "sam": (
        "SamModel",
        _images(
            64,
            input_points=lambda n: torch.rand(n, 1, 2, 2) * 64,
            input_labels=lambda n: torch.ones(n, 1, 2, dtype=torch.long),
            masks=lambda n: (torch.rand(n, 1, 3, 16, 16) > 0.5).float(),
        ),
        *(_of_points, lambda: SAM),
    ),
    "seggpt": (
        "SegGptForImageSegmentation",
        together(
            **dict.fromkeys(
                ("pixel_values", "prompt_pixel_values", "prompt_masks", "labels"),
                numbers(3, 16, 16),
            )
        ),
        own_loss,
        lambda: dict(
            {**SMALL, "num_hidden_layers": 5},
            image_size=[32, 16],
            patch_size=8,
            pretrain_image_size=16,
            decoder_hidden_size=8,
            merge_index=0,
            intermediate_hidden_state_indices=[1, 2, 3, 4],
            mlp_dim=24,
        ),
    ),
    "upernet": (
        *("UperNetForSemanticSegmentation", MAPS, own_loss),
        lambda: dict(
            backbone_config=swin(),
            hidden_size=16,
            pool_scales=[1, 2],
            auxiliary_in_channels=32,
            auxiliary_channels=8,
        ),
    ),
    "depth-anything": (
        *("DepthAnythingForDepthEstimation", DEPTHS, _of_field("predicted_depth")),
        lambda: dict(NECK, backbone_config=_dinov2()),
    ),
    "vitmatte": (
        "VitMatteForImageMatting",
        together(pixel_values=numbers(4, 32, 32), wanted=lambda n: torch.rand(n, 1, 32, 32)),
        _of_field("alphas"),
        lambda: dict(
            backbone_config=_vitdet(),
            hidden_size=16,
            convstream_hidden_sizes=[8, 8, 16],
            fusion_hidden_sizes=[16, 8, 8, 8],
        ),
    ),
    "vitpose": (
        *("VitPoseForPoseEstimation", HEATS, _of_field("heatmaps")),
        lambda: dict(backbone_config=_joints(), num_labels=17),
    ),
    "superpoint": (
        *("SuperPointForKeypointDetection", _images(32), _squares),
        lambda: _points().to_dict(),
    ),
    "swin2sr": (
        "Swin2SRForImageSuperResolution",
        _images(16, wanted=numbers(3, 32, 32)),
        _of_field("reconstruction"),
        lambda: dict(
            image_size=16,
            embed_dim=16,
            depths=[2],
            num_heads=[2],
            window_size=4,
            upsampler="pixelshuffledirect",
        ),
    ),
    "sapiens2-classes": _sapiens("SemanticSegmentation"),
    "sapiens2-normals": _sapiens("NormalEstimation", use_pixel_shuffle=True),
    "pixio": (
        *("PixioModel", _images(32), _squares),
        lambda: dict(SMALL, image_size=32, patch_size=8, n_cls_tokens=2),
    ),
    "radio": (
        *("RadioModel", _images(32), _squares),
        lambda: dict(
            SMALL,
            image_size=32,
            patch_size=8,
            max_img_size=64,
            num_cls_tokens=2,
            num_registers=2,
        ),
    ),
    "timesfm": (
        "TimesFmModelForPrediction",
        together(past=numbers(32), future=numbers(16)),
        _of_times,
        lambda: dict(TIMES, context_length=32, horizon_length=16),
    ),
}


def build(row: Row) -> Entry:
    import transformers

    name, batch, loss, fields = row
    model_class = getattr(transformers, name)
    config = model_class.config_class(**{"num_labels": LABELS, **fields()})
    return Entry(model_class(config).train(), batch, loss)


MODELS: dict[str, Callable[[], Entry]] = {
    f"transformers/boxes-and-maps/{name}": functools.partial(build, row)
    for name, row in ROWS.items()
}

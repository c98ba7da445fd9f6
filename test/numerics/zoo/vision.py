"""Models of torchvision and timm, with few classes and small images."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F

from entry import Entry, classes, numbers, rows, together

LABELS = 5

# `size` is the side of an image; what else a row has are the constructor's arguments.
TORCHVISION = """
efficientnet_b0
googlenet size=64 aux_logits=True init_weights=False
maxvit_t size=64
mnasnet0_5
mobilenet_v2 size=64
mobilenet_v3_small
regnet_x_400mf size=64
resnet18
shufflenet_v2_x0_5
squeezenet1_1 size=64
swin_t
swin_v2_t
vit_b_16
"""

TORCHVISION_MAPS = """
lraspp_mobilenet_v3_large size=64
"""

TORCHVISION_VIDEO = """
mvit_v2_s size=32
"""

TIMM = """
beit_base_patch16_224 img_size=32 embed_dim=32 depth=2 num_heads=4
cait_xxs24_224 img_size=32 embed_dim=32 depth=2 num_heads=4
coat_tiny img_size=64 embed_dims=(64,64,64,64) serial_depths=(1,1,1,1) parallel_depth=1
convit_tiny img_size=32 embed_dim=32 depth=2 num_heads=4 local_up_to_layer=1
ConvMixer dim=16 depth=2 patch_size=4 kernel_size=5
convnext_atto dims=(8,8,16,16) depths=(1,1,1,1)
convnextv2_atto dims=(8,8,16,16) depths=(1,1,1,1)
davit_tiny embed_dims=(8,16,16,32) depths=(1,1,1,1) num_heads=(1,2,2,4) size=64
deit3_small_patch16_224 img_size=32 embed_dim=32 depth=2 num_heads=4
deit_tiny_distilled_patch16_224 img_size=32 embed_dim=32 depth=2 num_heads=4
densenet121 growth_rate=4 block_config=(1,1,1,1) size=64
eva02_tiny_patch14_224 img_size=28 embed_dim=32 depth=2 num_heads=4
FocalNet embed_dim=8 depths=(1,1,1,1) size=64
MlpMixer img_size=32 patch_size=8 embed_dim=32 num_blocks=2
mobilevit_xxs size=64
Nest img_size=32 embed_dims=(8,16,32) num_heads=(1,2,4) depths=(1,1,1)
PoolingVisionTransformer img_size=64 base_dims=(8,8,8) depth=(1,1,1) heads=(1,2,4)
swin_tiny_patch4_window7_224 img_size=32 embed_dim=8 depths=(2,2) num_heads=(1,2) window_size=4
TNT img_size=32 embed_dim=32 inner_dim=8 depth=2 num_heads_outer=4
twins_svt_small size=64 embed_dims=(16,32,32,64) depths=(1,1,1,1) num_heads=(1,1,2,2)
vit_small_patch16_224 img_size=32 embed_dim=32 depth=2 num_heads=4
VOLO img_size=64 layers=(1,1,1,1) stem_hidden_dim=16 embed_dims=(16,16,16,16) num_heads=(1,2,2,2)
edgenext_xx_small size=64
inception_next_tiny dims=(16,16,32,32) depths=(1,1,1,1)
MetaFormer dims=(8,16,16,32) depths=(1,1,1,1) size=64
mobilenetv3_small_100 size=64
mobilevitv2_050 size=64
naflexvit_base_patch16_gap img_size=32 embed_dim=32 depth=2 num_heads=4
pvt_v2_b0 embed_dims=(8,8,16,16) num_heads=(1,1,2,2) depths=(1,1,1,1) size=64
samvit_base_patch16 img_size=32 embed_dim=32 depth=2 num_heads=4 global_attn_indexes=(1,)
swinv2_tiny_window8_256 img_size=32 embed_dim=8 depths=(2,2) num_heads=(1,2) window_size=4
tinynet_e size=64
xcit_nano_12_p16_224 img_size=32 embed_dim=32 depth=2 num_heads=4
resnetv2_50 layers=(1,1,1,1) channels=(16,16,16,16) stem_chs=16 size=64
res2net50_14w_8s layers=(1,1,1,1) size=64
resnest14d size=64
skresnet18 size=64
hiera_tiny_224 img_size=64
efficientvim_m1 size=224
cpubone_nano size=64
deepseek_vit_412m img_size=28 embed_dim=32 depth=2 num_heads=4
qwen3_vit_88m img_size=32 embed_dim=32 depth=2 num_heads=4
vit_relpos_small_patch16_224 img_size=32 embed_dim=32 depth=2 num_heads=4
vit_pe_core_tiny_patch16_384 img_size=32 embed_dim=32 depth=2 num_heads=4
vit_small_patch16_dinov3 img_size=32 embed_dim=32 depth=2 num_heads=4
vit_small_patch16_rope_224 img_size=32 embed_dim=32 depth=2 num_heads=4
vit_so150m_patch16_reg4_map_256 img_size=32 embed_dim=32 depth=2 num_heads=4
vit_relpos_base_patch32_plus_rpn_256 img_size=64 embed_dim=32 depth=2 num_heads=4
test_byobnet size=64
fasternet_t0 size=64
ese_vovnet19b_slim size=64
efficientvit_b0 size=64
legacy_seresnet18 size=64
regnetx_002 size=64
mambaout_femto size=64
cs3darknet_focus_s size=64
starnet_s1 size=64
mobilenetv4_conv_small size=64
efficientnet_lite0 size=64
gemma4_vit_167m img_size=48 embed_dim=32 depth=2 num_heads=4
hieradet_small embed_dim=16 stages=(1,1,1,1) size=64
crossvit_9_240 img_size=48 patch_size=(8,11) embed_dim=(16,32) depth=((1,1,0),(1,1,0)) num_heads=(2,2)
dla34 channels=(8,8,16,16,32,32) size=64
iformer_t size=64
visformer_tiny img_size=64 embed_dim=48 depth=(1,1,1)
swinv2_cr_tiny_ns_224 img_size=64 embed_dim=8 depths=(1,1,1,1) num_heads=(1,1,2,2)
tiny_vit_5m_224 size=64 embed_dims=(16,16,32,32) depths=(1,1,1,1) num_heads=(1,1,2,2)
test_coatnet img_size=64
test_nfnet size=64
test_resnet size=64
test_efficientnet size=64
resnetblur50 layers=(1,1,1,1) size=64
tresnet_m layers=(1,1,1,1) size=64
flexivit_small img_size=32 embed_dim=32 depth=2 num_heads=4
"""


def _all_logits(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of models with auxiliary classifiers: the sum of all losses."""
    out = model(x)
    if isinstance(out, dict):
        out = tuple(out.values())
    if not isinstance(out, tuple):
        return F.cross_entropy(out, y)
    return sum(F.cross_entropy(logits, y) for logits in out if logits is not None)


def _torchvision(kind: str, name: str, size: int = 32, frames: int = 4, **fields: Any) -> Entry:
    import torchvision.models as models

    image, labels = (3, size, size), ()
    if kind == "maps":
        models, labels = models.segmentation, (size, size)
        fields |= {"weights": None, "weights_backbone": None}
    if kind == "video":
        models, image = models.video, (3, frames, size, size)
    if name.startswith("mvit"):
        fields |= {"spatial_size": (size, size), "temporal_size": frames}
        return Entry(_small_mvit(models, **fields), *_classified(image, labels))
    if name == "vit_b_16":
        model = models.VisionTransformer(size, 8, 2, 4, 32, 64, num_classes=LABELS)
    elif name == "maxvit_t":
        stages = {"block_channels": [16, 32], "block_layers": [1, 1], "partition_size": 4}
        sizes = {"stem_channels": 16, "head_dim": 8, "stochastic_depth_prob": 0.1}
        model = models.MaxVit((size, size), **stages, **sizes, num_classes=LABELS)
    elif name in ("swin_t", "swin_v2_t"):
        v2 = {"block": models.swin_transformer.SwinTransformerBlockV2} if "v2" in name else {}
        if v2:
            v2["downsample_layer"] = models.swin_transformer.PatchMergingV2
        model = models.SwinTransformer([4, 4], 8, [2, 2], [1, 2], [4, 4], num_classes=LABELS, **v2)
    else:
        model = getattr(models, name)(num_classes=LABELS, **fields)
    return Entry(model, *_classified(image, labels))


def _small_mvit(models: Any, **fields: Any) -> nn.Module:
    setting = functools.partial(models.mvit.MSBlockConfig, num_heads=1, kernel_q=[3, 3, 3])
    blocks = [
        setting(
            input_channels=16,
            output_channels=16,
            kernel_kv=[3, 3, 3],
            stride_q=[1, 1, 1],
            stride_kv=[1, 4, 4],
        ),
        setting(
            input_channels=16,
            output_channels=32,
            kernel_kv=[3, 3, 3],
            stride_q=[1, 2, 2],
            stride_kv=[1, 2, 2],
        ),
    ]
    how = {"residual_pool": True, "residual_with_cls_embed": False, "rel_pos_embed": True}
    return models.MViT(
        block_setting=blocks, proj_after_attn=True, num_classes=LABELS, **how, **fields
    )


def _raft() -> Entry:
    """Optical flow, refined some times from the way that it goes between two images."""
    from torchvision.models.optical_flow import raft_small

    def loss(model: nn.Module, first: Any, second: Any, flow: Any) -> torch.Tensor:
        found = model(first, second, num_flow_updates=2)
        return sum(0.8**i * (one - flow).abs().mean() for i, one in enumerate(reversed(found)))

    image, flow = numbers(3, 128, 128), numbers(2, 128, 128)
    return Entry(raft_small(weights=None), together(first=image, second=image, flow=flow), loss)


def _timm(name: str, size: int = 0, **fields: Any) -> Entry:
    import timm

    side = size or fields.get("img_size", 32)
    model_class = name[0].isupper() and next(
        getattr(module, name) for module in vars(timm.models).values() if hasattr(module, name)
    )
    make = model_class or functools.partial(timm.create_model, name)
    model = make(num_classes=LABELS, **fields)
    return Entry(model, *_classified((3, side, side), ()))


def _classified(image: tuple[int, ...], labels: tuple[int, ...]) -> tuple[Any, Any]:
    return together(x=numbers(*image), y=classes(LABELS, *labels)), _all_logits


def _models() -> dict[str, Callable[[], Entry]]:
    found: dict[str, Callable[[], Entry]] = {"torchvision/raft_small": _raft}
    tables = {"classes": TORCHVISION, "maps": TORCHVISION_MAPS, "video": TORCHVISION_VIDEO}
    for kind, table in tables.items():
        for name, fields in rows(table).items():
            found[f"torchvision/{name}"] = functools.partial(_torchvision, kind, name, **fields)
    for name, fields in rows(TIMM).items():
        found[f"timm/{name}"] = functools.partial(_timm, name, **fields)
    return found


MODELS = _models()

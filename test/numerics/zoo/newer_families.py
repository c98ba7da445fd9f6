"""Families of Hugging Face's transformers that are trained on pictures, sounds or videos, each with
parts, a batch and a loss of its own."""

from __future__ import annotations

from typing import Callable

import torch

from boxes_and_maps import BOXES
from entry import Entry, Tensors, classes, numbers, own_loss, together
from matched_pairs import GROUPS, of_boxes
from more_pictures import IDS, LAYERS, PART, PICTURES, SIDE, WHOLE, with_places
from pictures_and_text import FEATURES, IMAGE, TEXT, VISION
from sound import MIMI, Row, maker

WINDOWS = dict(head_dim=8, sliding_window=8)
GEMMA3N = dict(
    TEXT | WINDOWS,
    num_hidden_layers=4,
    vocab_size_per_layer_input=64,
    hidden_size_per_layer_input=8,
    num_kv_shared_layers=2,
    laurel_rank=4,
    activation_sparsity_pattern=[0.5, 0.0, 0.0, 0.0],
    layer_types=["sliding_attention", "full_attention"] * 2,
)
GEMMA4 = dict(
    text_config=dict(
        TEXT | WINDOWS,
        global_head_dim=8,
        vocab_size_per_layer_input=64,
        hidden_size_per_layer_input=8,
        layer_types=["sliding_attention", "full_attention"],
    ),
    vision_config=dict(
        LAYERS,
        num_key_value_heads=4,
        head_dim=8,
        patch_size=4,
        pooling_kernel_size=2,
        position_embedding_size=16,
    ),
    audio_config=None,
    image_token_id=IMAGE,
    video_token_id=IMAGE + 1,
    audio_token_id=IMAGE + 2,
)
LLAMA4 = dict(
    text_config=dict(
        TEXT, head_dim=8, intermediate_size_mlp=48, num_local_experts=4, attention_chunk_size=8
    ),
    vision_config=dict(
        PART,
        intermediate_size=128,
        vision_output_dim=32,
        patch_size=4,
        projector_input_dim=32,
        projector_output_dim=32,
    ),
    image_token_index=IMAGE,
)
FLAVA = dict(
    text_config=dict(LAYERS, vocab_size=64, max_position_embeddings=64),
    image_config=dict(PART, vocab_size=16, mask_token=True),
    multimodal_config=LAYERS,
    image_codebook_config=dict(num_blocks_per_group=1, hidden_size=8, vocab_size=16),
    hidden_size=32,
    projection_dim=16,
)
GEMMA = dict(model_type="gemma", head_dim=8, **TEXT)
PI0 = dict(
    vlm_config=dict(
        model_type="paligemma",
        text_config=GEMMA,
        vision_config=dict(model_type="siglip_vision_model", **VISION),
        image_token_id=IMAGE,
        projection_dim=32,
        hidden_size=32,
    ),
    dit_config=GEMMA,
    chunk_size=5,
    max_state_dim=6,
    max_action_dim=6,
)
VJEPA2 = dict(
    patch_size=8,
    crop_size=16,
    frames_per_clip=4,
    hidden_size=24,
    num_attention_heads=2,
    num_hidden_layers=2,
    num_pooler_layers=1,
    pred_hidden_size=24,
    pred_num_attention_heads=2,
    pred_num_hidden_layers=1,
    pred_num_mask_tokens=2,
    num_labels=3,
)
DECODER = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=8,
    ffn_dim=64,
    vocab_size=64,
    audio_vocab_size=16,
    num_codebooks=2,
)
MOSHI = dict(
    DECODER,
    max_position_embeddings=64,
    sliding_window=32,
    audio_encoder_config=MIMI,
    depth_decoder_config=dict(DECODER, input_size=32, max_position_embeddings=8),
)
RF_DETR = dict(
    num_labels=3,
    backbone_config=dict(
        model_type="rf_detr_dinov2",
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=64,
        patch_size=8,
        num_windows=2,
        out_features=["stage1", "stage2"],
    ),
    c2f_num_blocks=1,
    **GROUPS,
)


def _by_places(n: int) -> Tensors:
    """Patches with their places, as Gemma 4 takes a picture."""
    drawn = with_places(FEATURES)(n)
    columns = torch.arange(16) % 4, torch.arange(16) // 4
    return {
        **drawn,
        "pixel_values": torch.rand(n, 16, 48),
        "image_position_ids": torch.stack(columns, -1).expand(n, -1, -1).clone(),
        "mm_token_type_ids": (drawn["input_ids"] == IMAGE).long(),
    }


def _hidden(n: int) -> Tensors:
    """Words and patches, some of which are to be found."""
    ids = IDS(n)
    words, patches = torch.rand(ids.shape) < 0.3, torch.zeros(n, 2, 2, dtype=torch.long)
    words[:, 2], patches[:, 0, 1] = True, 1
    return {
        "input_ids": ids,
        "input_ids_masked": ids.clone(),
        "mlm_labels": torch.where(words, ids, -100),
        "itm_labels": torch.ones(n, dtype=torch.long),
        "bool_masked_pos": patches,
        "codebook_pixel_values": torch.rand(n, 3, 16, 16),
        **together(**PICTURES, **WHOLE)(n),
    }


def _acted(n: int) -> Tensors:
    """What a robot sees and is told, and what it does."""
    drawn = with_places(FEATURES, pixel_values=numbers(1, 3, SIDE, SIDE))(n)
    del drawn["labels"]
    return {
        **drawn,
        "pixel_attention_mask": torch.ones(n, 1, dtype=torch.bool),
        "attention_mask": torch.ones_like(drawn["input_ids"]),
        "state": torch.randn(n, 6),
        "actions": torch.randn(n, 5, 6),
    }


SPOKEN = classes(16, 2, 12)

# As those of `sound`.
ROWS: dict[str, Row] = {
    "gemma3n": (
        *("Gemma3nForCausalLM", "Gemma3nText", GEMMA3N),
        *(together(input_ids=IDS, labels=IDS), own_loss),
    ),
    "gemma4": ("Gemma4ForConditionalGeneration", "Gemma4", GEMMA4, _by_places, own_loss),
    "llama4": (
        *("Llama4ForConditionalGeneration", "Llama4", LLAMA4),
        *(with_places(FEATURES, **PICTURES), own_loss),
    ),
    "git": (
        *("GitForCausalLM", "Git"),
        {k: v for k, v in TEXT.items() if k != "num_key_value_heads"} | {"vision_config": PART},
        *(together(input_ids=IDS, labels=IDS, **PICTURES), own_loss),
    ),
    "flava-pretraining": ("FlavaForPreTraining", "Flava", FLAVA, _hidden, own_loss),
    "pi0": ("PI0ForConditionalGeneration", "PI0", PI0, _acted, own_loss),
    "rf-detr": ("RfDetrForObjectDetection", "RfDetr", RF_DETR, BOXES, of_boxes),
    "vjepa2": (
        *("VJEPA2ForVideoClassification", "VJEPA2", VJEPA2),
        *(together(pixel_values_videos=numbers(4, 3, 16, 16), labels=classes(3)), own_loss),
    ),
    "moshi": (
        *("MoshiForConditionalGeneration", "Moshi", MOSHI),
        together(
            **dict.fromkeys(("input_ids", "text_labels"), IDS),
            **dict.fromkeys(("user_audio_codes", "moshi_audio_codes", "audio_labels"), SPOKEN),
        ),
        own_loss,
    ),
}


MODELS: dict[str, Callable[[], Entry]] = {
    f"transformers/newer-families/{name}": maker(row) for name, row in ROWS.items()
}

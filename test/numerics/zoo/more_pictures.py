"""More models of Hugging Face's transformers that read pictures, or pages, among words: with parts,
batches and losses of their own, which `pictures_and_text` has no row for."""

from __future__ import annotations

from typing import Any, Callable

import torch

from entry import Entry, Tensor, Tensors, classes, numbers, own_loss, together
from hugging_face import configuration
from pictures_and_text import (
    BEGINS,
    FEATURES,
    IMAGE,
    SIDE,
    TEXT,
    VISION,
    WORDS,
    VOCABULARY,
    with_positions,
)

IDS = classes(IMAGE, WORDS, first=3)
WHOLE = dict(attention_mask=lambda n: torch.ones(n, WORDS, dtype=torch.long))
PICTURES = dict(pixel_values=numbers(3, SIDE, SIDE))
PAIRS = together(input_ids=IDS, **PICTURES, **WHOLE)
PART = {name: value for name, value in VISION.items() if name != "projection_dim"}
LAYERS = {name: value for name, value in PART.items() if name not in ("image_size", "patch_size")}


def _words(n: int, places: int = FEATURES) -> Tensors:
    """Words, of which the second and those behind it are places of a picture's features."""
    ids = torch.randint(3, IMAGE - 1, (n, WORDS + places))
    ids[:, 1 : 1 + places] = IMAGE
    return {"input_ids": ids, "labels": ids.masked_fill(ids == IMAGE, -100)}


def with_places(
    places: int = FEATURES, **draws: Callable[[int], Tensor]
) -> Callable[[int], Tensors]:
    return lambda n: {**_words(n, places), **together(**draws)(n)}


def _contrastive(model: Any, **inputs: Tensor) -> Tensor:
    return model(**inputs, return_loss=True).loss


def _of_sizes(model: Any, **inputs: Tensor) -> Tensor:
    """Pictures of one size, which the step says: sizes of a batch are read in Python."""
    sizes = torch.tensor([[SIDE, SIDE]]).expand(len(inputs["input_ids"]), -1)
    return model(**inputs, image_sizes=sizes).loss


def _parts(name: str, vision: Any, text: Any, **more: Any) -> Callable[[], Any]:
    """A configuration of the classes and fields of its two parts."""

    def make() -> Any:
        import transformers

        return getattr(transformers, f"{name}Config")(
            vision_config=getattr(transformers, f"{vision[0]}Config")(**VISION | vision[1]),
            text_config=getattr(transformers, f"{text}Config")(**TEXT),
            **more,
        )

    return make


def _whole(name: str, **fields: Any) -> Callable[[], Any]:
    """A configuration whose parts are dictionaries."""

    def make() -> Any:
        import transformers

        return getattr(transformers, f"{name}Config")(**fields)

    return make


def _tiny(name: str, **fields: Any) -> Callable[[], Any]:
    """One part, with tiny fields."""

    def make() -> Any:
        import transformers

        config = configuration(getattr(transformers, f"{name}Config"), fields)
        config.num_labels = 3
        return config

    return make


def _positions(name: str, vision: dict[str, Any], **text: Any) -> Callable[[], Entry]:
    """As Qwen2-VL: positions come with the batch."""

    def make() -> Entry:
        import transformers

        rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "partial_rotary_factor": 1.0}
        config = getattr(transformers, f"{name}Config")(
            text_config=TEXT | {"rope_parameters": {**rope, "rope_theta": 1e4}} | text,
            vision_config=LAYERS | dict(num_heads=4, patch_size=4, out_hidden_size=32) | vision,
            image_token_id=IMAGE,
            video_token_id=IMAGE + 2,
            vision_start_token_id=BEGINS,
            vision_end_token_id=IMAGE + 3,
        )
        model = getattr(transformers, f"{name}ForConditionalGeneration")(config).train()
        return with_positions(model)

    return make


OPT = dict(
    model_type="opt",
    vocab_size=VOCABULARY,
    hidden_size=32,
    num_hidden_layers=2,
    ffn_dim=48,
    num_attention_heads=4,
    max_position_embeddings=64,
    word_embed_proj_dim=32,
)
QUERIES = dict(
    vision_config=PART,
    qformer_config=LAYERS | dict(vocab_size=VOCABULARY, encoder_hidden_size=32),
    text_config=OPT,
    num_query_tokens=FEATURES,
    image_token_index=IMAGE,
)
ANY_SIZE = dict(image_token_index=IMAGE, image_grid_pinpoints=[[16, 32], [32, 16], [32, 32]])
CLIP, SIGLIP = ("CLIPVision", {}), ("SiglipVision", {})
GLM = dict(depth=2, image_size=SIDE)
EXPERTS = dict(head_dim=8, num_experts_per_tok=2, moe_intermediate_size=16)
BOXES = lambda n: torch.cat((classes(30, WORDS, 2)(n), classes(60, WORDS, 2, first=30)(n)), -1)
LILT = dict(
    hidden_size=48,
    max_2d_position_embeddings=64,
    hidden_dropout_prob=0.0,  # the last one of the layout is dead, see docs/parity.md
    attention_probs_dropout_prob=0.0,
)
VILT = dict(vocab_size=VOCABULARY, max_position_embeddings=40, **PART)
SEEN = dict(vision_config=dict(hidden_size=64, num_hidden_layers=2, patch_size=8, image_size=SIDE))
READ = dict(text_config=dict(vocab_size=VOCABULARY, max_position_embeddings=64, **LAYERS))

# Name: class, configuration, batch and loss.
Row = tuple[str, Callable[[], Any], Callable[[int], Tensors], Callable[..., Tensor]]
TILES = with_places(10, pixel_values=numbers(3, 3, SIDE, SIDE))
ROWS: dict[str, Row] = {
    "cohere2_vision": (
        "Cohere2VisionForConditionalGeneration",
        _parts(
            *("Cohere2Vision", ("SiglipVision", {"patch_size": 4}), "Cohere2"),
            image_token_id=IMAGE,
            downsample_factor=2,
            alignment_intermediate_size=32,
        ),
        *(with_places(**PICTURES), own_loss),
    ),
    "deepseek_vl": (
        "DeepseekVLForConditionalGeneration",
        _parts("DeepseekVL", SIGLIP, "Llama", image_token_id=IMAGE),
        *(with_places(**PICTURES), own_loss),
    ),
    "llava_next": (
        "LlavaNextForConditionalGeneration",
        _parts("LlavaNext", CLIP, "Llama", **ANY_SIZE, image_seq_length=4),
        *(TILES, _of_sizes),
    ),
    "llava_onevision": (
        "LlavaOnevisionForConditionalGeneration",
        _parts("LlavaOnevision", SIGLIP, "Qwen2", **ANY_SIZE, video_token_index=IMAGE + 2),
        *(TILES, _of_sizes),
    ),
    "llava_onevision-batch-of-sizes": (
        "LlavaOnevisionForConditionalGeneration",
        _parts("LlavaOnevision", SIGLIP, "Qwen2", **ANY_SIZE, video_token_index=IMAGE + 2),
        with_places(
            10,
            pixel_values=numbers(3, 3, SIDE, SIDE),
            image_sizes=lambda n: torch.full((n, 2), SIDE),
        ),
        own_loss,
    ),
    "pixtral": (
        "LlavaForConditionalGeneration",
        _parts(
            *("Llava", ("PixtralVision", {"head_dim": 8}), "Mistral"),
            image_token_index=IMAGE,
            vision_feature_layer=-1,
            vision_feature_select_strategy="full",
        ),
        *(with_places(**PICTURES), _of_sizes),
    ),
    "mistral3": (
        "Mistral3ForConditionalGeneration",
        _parts(
            *("Mistral3", ("PixtralVision", {"head_dim": 8, "patch_size": 4}), "Mistral"),
            image_token_index=IMAGE,
        ),
        *(with_places(**PICTURES), _of_sizes),
    ),
    "video_llava": (
        "VideoLlavaForConditionalGeneration",
        _parts("VideoLlava", CLIP, "Llama", image_token_index=62, video_token_index=IMAGE),
        *(with_places(40, pixel_values_videos=numbers(8, 3, SIDE, SIDE)), own_loss),
    ),
    "blip_2": (
        *("Blip2ForConditionalGeneration", _whole("Blip2", **QUERIES)),
        *(with_places(**PICTURES), own_loss),
    ),
    "instructblip": (
        *("InstructBlipForConditionalGeneration", _whole("InstructBlip", **QUERIES)),
        *(with_places(**PICTURES, qformer_input_ids=IDS), own_loss),
    ),
    "mllama": (
        "MllamaForConditionalGeneration",
        _whole(
            "Mllama",
            vision_config=dict(
                hidden_size=32,
                num_hidden_layers=2,
                num_global_layers=1,
                attention_heads=4,
                intermediate_size=48,
                vision_output_dim=64,
                image_size=SIDE,
                patch_size=8,
                max_num_tiles=2,
                intermediate_layers_indices=[0],
                supported_aspect_ratios=[[1, 1], [1, 2], [2, 1]],
            ),
            text_config=TEXT
            | dict(cross_attention_layers=[1], rope_parameters={"rope_type": "default"}),
            image_token_index=VOCABULARY,
        ),
        together(
            input_ids=IDS,
            labels=IDS,
            pixel_values=numbers(1, 2, 3, SIDE, SIDE),
            aspect_ratio_ids=lambda n: torch.ones(n, 1, dtype=torch.long),
            aspect_ratio_mask=lambda n: torch.tensor([1, 0]).expand(n, 1, 2).clone(),
            cross_attention_mask=lambda n: torch.tensor([1, 0]).expand(n, WORDS, 1, 2).clone(),
            **WHOLE,
        ),
        own_loss,
    ),
    "vilt-masked-words": (
        *("ViltForMaskedLM", _whole("Vilt", **VILT)),
        *(together(input_ids=IDS, **PICTURES, labels=IDS), own_loss),
    ),
    "vilt-answers": (
        *("ViltForQuestionAnswering", _whole("Vilt", **VILT, num_labels=3)),
        *(together(input_ids=IDS, **PICTURES, labels=lambda n: torch.rand(n, 3)), own_loss),
    ),
    "bridgetower": (
        "BridgeTowerForImageAndTextRetrieval",
        _whole(
            "BridgeTower",
            hidden_size=32,
            num_attention_heads=4,
            num_hidden_layers=2,
            **SEEN,
            **READ,
        ),
        *(lambda n: {**PAIRS(n), "labels": classes(2)(n)}, own_loss),
    ),
    "x_clip": (
        "XCLIPModel",
        _whole(
            "XCLIP",
            projection_dim=32,
            prompt_num_attention_heads=4,
            vision_config=dict(
                num_frames=2,
                mit_hidden_size=32,
                mit_intermediate_size=48,
                mit_num_attention_heads=4,
                **PART,
            ),
            **READ,
        ),
        *(together(input_ids=IDS, pixel_values=numbers(2, 3, SIDE, SIDE)), _contrastive),
    ),
    "lilt": (
        *("LiltForTokenClassification", _tiny("Lilt", **LILT)),
        *(together(input_ids=IDS, bbox=BOXES, labels=classes(3, WORDS)), own_loss),
    ),
    "bros": (
        *("BrosForTokenClassification", _tiny("Bros", dim_bbox=4)),
        together(
            input_ids=IDS,
            bbox=lambda n: torch.rand(n, WORDS, 4),
            labels=classes(3, WORDS),
            bbox_first_token_mask=lambda n: (torch.arange(WORDS) % 2 == 0).expand(n, -1).clone(),
        ),
        own_loss,
    ),
}


def _maker(row: Row) -> Callable[[], Entry]:
    class_name, config, batch, loss = row

    def make() -> Entry:
        import transformers

        return Entry(getattr(transformers, class_name)(config()).train(), batch, loss)

    return make


MODELS: dict[str, Callable[[], Entry]] = {
    f"transformers/pictures-and-text/{name}": make
    for name, make in {
        **{name: _maker(row) for name, row in ROWS.items()},
        "qwen2_5_vl": _positions(
            "Qwen2_5_VL", dict(depth=2, window_size=8, fullatt_block_indexes=[1])
        ),
        "qwen3_vl": _positions(
            *("Qwen3VL", dict(depth=2, num_position_embeddings=16, deepstack_visual_indexes=[0])),
            head_dim=8,
        ),
        "glm4v": _positions("Glm4v", GLM, head_dim=8),
        "glm4v_moe": _positions(
            *("Glm4vMoe", GLM),
            **EXPERTS,
            n_routed_experts=4,
            n_shared_experts=1,
            n_group=1,
            topk_group=1,
            first_k_dense_replace=1,
        ),
    }.items()
}

"""Models of Hugging Face's transformers that read pictures among words.

A picture's features take the places of `IMAGE` tokens, of which there are as many.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from entry import Entry, Tensors, own_loss

VOCABULARY, IMAGE, BEGINS = 64, 60, 61
WORDS, FEATURES, SIDE = 12, 4, 16

TEXT = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=VOCABULARY,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=1,
)
VISION = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    image_size=SIDE,
    patch_size=8,
    projection_dim=32,
)


def _words(n: int) -> Tensors:
    """A picture behind the first of the words; only words are predicted."""
    ids = torch.randint(3, IMAGE - 1, (n, WORDS + FEATURES))
    ids[:, 1 : 1 + FEATURES] = IMAGE
    return {"input_ids": ids, "labels": ids.masked_fill(ids == IMAGE, -100)}


def _pictures(n: int) -> Tensors:
    return {**_words(n), "pixel_values": torch.randn(n, 3, SIDE, SIDE)}


def _marked(pictures: bool) -> Callable[[int], Tensors]:
    """Token types say what are words, or what are `pictures`."""

    def batch(n: int) -> Tensors:
        drawn = _pictures(n)
        types = (drawn["input_ids"] == IMAGE) == pictures
        return {**drawn, "token_type_ids": types.long()}

    return batch


Part = tuple[str, dict[str, Any]]


def _entry(
    name: str, vision: Part, text: Part, batch: Any = _pictures, **more: Any
) -> Callable[[], Entry]:
    """`vision` and `text` name the classes of the configuration's parts, and what they have beside
    `VISION` and `TEXT`; `more` is the configuration's own."""

    def make() -> Entry:
        import transformers

        config = getattr(transformers, f"{name}Config")(
            vision_config=getattr(transformers, f"{vision[0]}Config")(**VISION | vision[1]),
            text_config=getattr(transformers, f"{text[0]}Config")(**TEXT | text[1]),
            image_token_id=IMAGE,
            **more,
        )
        model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
        return Entry(model.train(), batch, own_loss)

    return make


def _several(n: int) -> Tensors:
    """Of each sample a list of pictures, here of one."""
    drawn = _pictures(n)
    return {**drawn, "pixel_values": drawn["pixel_values"][:, None]}


def with_positions(model: Any) -> Entry:
    """A model whose positions are computed in Python from the words, so that they come with the batch."""
    grid = torch.tensor([[1, 4, 4]])

    def batch(n: int) -> Tensors:
        drawn = _words(n)
        ids = drawn["input_ids"]
        ids[:, 0] = BEGINS
        positions, _ = model.model.get_rope_index(ids, (ids == IMAGE).int(), grid.expand(n, -1))
        patches = torch.randn(n, 4 * FEATURES, 3 * 2 * 4 * 4)
        return {**drawn, "pixel_values": patches, "position_ids": positions.transpose(0, 1)}

    def loss(model: Any, pixel_values: Any, position_ids: Any, **words: Any) -> torch.Tensor:
        return model(
            **words,
            pixel_values=pixel_values.flatten(0, 1),
            image_grid_thw=grid.expand(len(pixel_values), -1),
            position_ids=position_ids.transpose(0, 1),
        ).loss

    return Entry(model, batch, loss)


def _qwen2_vl() -> Entry:
    import transformers

    text = TEXT | {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2]}}
    vision = dict(depth=2, embed_dim=32, hidden_size=32, num_heads=4, patch_size=4, mlp_ratio=2)
    config = transformers.Qwen2VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=IMAGE,
        vision_start_token_id=BEGINS,
    )
    model = transformers.Qwen2VLForConditionalGeneration(config).train()
    return with_positions(model)


CLIP, SIGLIP = ("CLIPVision", {}), ("SiglipVision", {})
LLAMA = ("Llama", {})

MODELS: dict[str, Callable[[], Entry]] = {
    f"transformers/pictures-and-text/{name}": make
    for name, make in {
        "aya_vision": _entry(
            *("AyaVision", ("SiglipVision", {"patch_size": 4}), ("Cohere2", {})),
            downsample_factor=2,
        ),
        "gemma3": _entry(
            *("Gemma3", SIGLIP, ("Gemma3Text", {"head_dim": 8, "sliding_window": 8})),
            _marked(pictures=True),
            mm_tokens_per_image=FEATURES,
        ),
        "idefics3": _entry(
            *("Idefics3", ("Idefics3Vision", {"patch_size": 4}), LLAMA, _several),
            scale_factor=2,
        ),
        "internvl": _entry(
            "InternVL",
            ("InternVLVision", {"image_size": (SIDE, SIDE), "patch_size": (4, 4)}),
            ("Qwen2", {}),
            downsample_ratio=0.5,
        ),
        "llava": _entry("Llava", CLIP, LLAMA),
        "paligemma": _entry(
            *("PaliGemma", SIGLIP, ("Gemma", {"head_dim": 8}), _marked(pictures=False)),
            projection_dim=32,
            hidden_size=32,
        ),
        "qwen2_vl": _qwen2_vl,
        "vipllava": _entry("VipLlava", CLIP, LLAMA, vision_feature_layers=[-1, -2]),
    }.items()
}

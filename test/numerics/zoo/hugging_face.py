"""Models of Hugging Face's transformers: tiny configurations of many families.

A configuration is made of its class's own fields: those that `TINY` names get its values, in the
parts of a composite one too, and then come the overrides of the model's row.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

import torch

import hugging_face_rows as tables
from entry import Entry, Tensors, classes, numbers, own_loss, rows, together

VOCABULARY, LENGTH, LABELS = 64, 12, 3

# Fields of configurations that are a number, behind the value that they get.


VALUES = """
64 vocab_size max_position_embeddings n_positions n_ctx n_inner seq_length
48 intermediate_size ffn_dim d_ff ffn_hidden_size encoder_ffn_dim decoder_ffn_dim d_inner dff
48 shared_intermediate_size shared_expert_intermediate_size intermediate_size_mlp embedding_hidden_size
32 hidden_size d_model n_embd dim emb_dim embed_dim embedding_size image_size encoder_dim dim_model
32 max_source_positions max_target_positions projection_dim true_hidden_size intra_bottleneck_size
16 q_lora_rank kv_lora_rank moe_intermediate_size expert_ffn_hidden_size num_mel_bins dim_ff
8 head_dim qk_nope_head_dim qk_rope_head_dim v_head_dim patch_size d_kv dim_head
8 state_size ssm_state_size mamba_d_state mamba_d_head global_head_dim linear_key_head_dim
8 linear_value_head_dim sliding_window
4 num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads
4 num_experts num_local_experts n_routed_experts linear_num_value_heads
2 num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers
2 num_key_value_heads num_experts_per_tok moe_topk top_k_experts linear_num_key_heads
1 n_group topk_group first_k_dense_replace n_shared_experts num_shared_experts num_dense_layers
1 bos_token_id eos_token_id
0 pad_token_id decoder_start_token_id
"""
TINY = {
    name: int(value)
    for value, *names in map(str.split, VALUES.strip().splitlines())
    for name in names
}


def configuration(config_class: Any, overrides: dict[str, Any]) -> Any:
    """A tiny instance of `config_class`; `overrides` may name fields of parts, with dots."""
    accepted = inspect.signature(config_class.__init__).parameters
    # Where a family has one number for each stage, its row says which.
    numbers = {name for name, field in accepted.items() if type(field.default) in _NUMBERS}
    fields = {name: value for name, value in TINY.items() if name in numbers}
    for name, part in config_class.sub_configs.items():
        if hasattr(part, "sub_configs") and part.__name__ != "AutoConfig":
            prefix = f"{name}."
            own = {k.removeprefix(prefix): v for k, v in overrides.items() if k.startswith(prefix)}
            fields[name] = configuration(part, own).to_dict()
    config = config_class(**fields | {k: v for k, v in overrides.items() if "." not in k})
    config.num_labels = LABELS
    return config


_NUMBERS = (int, type(None), type(inspect.Parameter.empty))


def _ids(*shape: int) -> Callable[[int], torch.Tensor]:
    return classes(VOCABULARY, *shape, first=3)


def _text(config: Any) -> Callable[[int], Tensors]:
    """Token ids that are their own labels."""

    def batch(n: int) -> Tensors:
        ids = _ids(LENGTH)(n)
        return {"input_ids": ids, "labels": ids.clone()}

    return batch


def _text_labels(config: Any) -> Callable[[int], Tensors]:
    return together(input_ids=_ids(LENGTH), labels=classes(LABELS))


def _side(config: Any) -> int:
    size = getattr(getattr(config, "vision_config", config), "image_size", None) or 32
    return size if isinstance(size, int) else size[0]


def _image(config: Any) -> Callable[[int], torch.Tensor]:
    return numbers(getattr(config, "num_channels", 3), _side(config), _side(config))


def _image_labels(config: Any) -> Callable[[int], Tensors]:
    return together(pixel_values=_image(config), labels=classes(LABELS))


def _image_maps(config: Any) -> Callable[[int], Tensors]:
    return together(
        pixel_values=_image(config), labels=classes(LABELS, _side(config), _side(config))
    )


def _pairs(config: Any) -> Callable[[int], Tensors]:
    return together(
        input_ids=_ids(LENGTH),
        pixel_values=_image(config),
        attention_mask=lambda n: torch.ones(n, LENGTH, dtype=torch.long),
    )


def _waves(config: Any) -> Callable[[int], Tensors]:
    return together(input_values=numbers(1600), labels=classes(LABELS))


def _waves_text(config: Any) -> Callable[[int], Tensors]:
    return together(input_values=numbers(800), labels=_ids(2))


def _mels(config: Any) -> Callable[[int], Tensors]:
    mels = getattr(config, "num_mel_bins", None) or config.input_feat_per_channel
    shape = (mels, 64) if config.model_type == "whisper" else (64, mels)
    return together(input_features=numbers(*shape), labels=_ids(LENGTH))


def _video(config: Any) -> Callable[[int], Tensors]:
    frames = getattr(config, "num_frames", 4)
    images = numbers(frames, 3, _side(config), _side(config))
    return together(pixel_values=images, labels=classes(LABELS))


def _contrastive_loss(model: torch.nn.Module, **inputs: torch.Tensor) -> torch.Tensor:
    return model(**inputs, return_loss=True).loss


# Task: its table, transformers' mapping of model types to classes, the batch, and the loss.
TASKS: dict[str, tuple[str, str, Callable[[Any], Callable[[int], Tensors]], Any]] = {
    "causal": (tables.CAUSAL, "CAUSAL_LM", _text, own_loss),
    "masked": (tables.MASKED, "MASKED_LM", _text, own_loss),
    "seq2seq": (tables.SEQ2SEQ, "SEQ_TO_SEQ_CAUSAL_LM", _text, own_loss),
    "text-classes": (tables.TEXT_CLASSES, "SEQUENCE_CLASSIFICATION", _text_labels, own_loss),
    "images": (tables.IMAGES, "IMAGE_CLASSIFICATION", _image_labels, own_loss),
    "maps": (tables.MAPS, "SEMANTIC_SEGMENTATION", _image_maps, own_loss),
    "contrastive": (
        tables.CONTRASTIVE,
        "ZERO_SHOT_IMAGE_CLASSIFICATION",
        _pairs,
        _contrastive_loss,
    ),
    "ctc": (tables.CTC, "CTC", _waves_text, own_loss),
    "audio": (tables.AUDIO, "AUDIO_CLASSIFICATION", _waves, own_loss),
    "speech": (tables.SPEECH, "SPEECH_SEQ_2_SEQ", _mels, own_loss),
    "video": (tables.VIDEO, "VIDEO_CLASSIFICATION", _video, own_loss),
}


def _build(task: str, kind: str, overrides: dict[str, Any]) -> Entry:
    import transformers
    from transformers.models.auto import modeling_auto

    _, mapping, batch, loss = TASKS[task]
    name = getattr(modeling_auto, f"MODEL_FOR_{mapping}_MAPPING_NAMES")[kind]
    model_class = getattr(transformers, name if isinstance(name, str) else name[0])
    config = configuration(transformers.CONFIG_MAPPING[kind], overrides)
    return Entry(model_class(config).train(), batch(config), loss)


MODELS: dict[str, Callable[[], Entry]] = {
    f"transformers/{task}/{kind}": functools.partial(_build, task, kind, overrides)
    for task, (table, *_) in TASKS.items()
    for kind, overrides in rows(table).items()
}

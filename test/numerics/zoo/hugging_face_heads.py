"""Models of Hugging Face's transformers with heads, losses and inputs of their own: what a table of
types and tasks (hugging_face.py) does not say."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F

from entry import Entry, Tensor, Tensors, classes, numbers, own_loss, together
from hugging_face import LABELS, LENGTH, VOCABULARY, configuration

Batch = Callable[[int], Tensors]
IDS = classes(VOCABULARY, LENGTH, first=3)
SIDE, BOXES = 32, classes(60, LENGTH, 4)


def _padding(n: int) -> Tensor:
    return (torch.arange(LENGTH) < torch.randint(6, LENGTH + 1, (n, 1))).long()


def _probabilities(*shape: int) -> Callable[[int], Tensor]:
    return lambda n: torch.rand(n, *shape)


def _masked(places: int) -> Callable[[int], Tensor]:
    """Every second one, of each sample as many."""
    return lambda n: (torch.arange(places) % 2 == 0).expand(n, places).clone()


ANSWERS = together(input_ids=IDS, start_positions=classes(LENGTH), end_positions=classes(LENGTH))
WORDS = together(input_ids=IDS, labels=classes(LABELS, LENGTH))
TEXT = together(input_ids=IDS, labels=classes(VOCABULARY, LENGTH))
PADDED = together(input_ids=IDS, labels=classes(VOCABULARY, LENGTH), attention_mask=_padding)
PICTURES = together(pixel_values=numbers(3, SIDE, SIDE))
PAST = together(past_values=numbers(32, 3), future_values=numbers(8, 3))
SERIES = together(
    past_values=numbers(23),
    past_time_features=numbers(23, 1),
    past_observed_mask=lambda n: torch.ones(n, 23),
    future_values=numbers(8),
    future_time_features=numbers(8, 1),
)
SOUND = together(input_values=numbers(1600), labels=classes(LABELS))
GAMES = together(
    states=numbers(5, 17),
    actions=numbers(5, 4),
    rewards=numbers(5, 1),
    returns_to_go=numbers(5, 1),
    timesteps=classes(20, 5),
    attention_mask=lambda n: torch.ones(n, 5),
)


def _state_loss(model: nn.Module, **inputs: Tensor) -> Tensor:
    """Of models without a loss."""
    return model(**inputs).last_hidden_state.square().mean()


def _actions_loss(model: nn.Module, **inputs: Tensor) -> Tensor:
    return F.mse_loss(model(**inputs).action_preds, inputs["actions"])


def _both_losses(model: nn.Module, **inputs: Tensor) -> Tensor:
    out = model(**inputs)
    return out.loss + out.mc_loss


def _contrastive_loss(model: nn.Module, input_ids: Tensor) -> Tensor:
    pooled = model(input_ids).pooler_output
    return F.cross_entropy(pooled @ pooled.T, torch.arange(len(pooled)))


DECODER = dict(
    decoder_num_hidden_layers=1,
    decoder_num_attention_heads=4,
    decoder_hidden_size=32,
    decoder_intermediate_size=48,
)
PATCHES = dict(num_input_channels=3, context_length=32, patch_length=8, patch_stride=8)
LAGS = dict(prediction_length=8, context_length=16, num_time_features=1, lags_sequence=[1, 2, 7])
# Convolutions of sound, with spans that are hidden in training (SpecAugment).
HIDES = dict(
    conv_dim=(16, 16),
    conv_stride=(10, 8),
    conv_kernel=(10, 8),
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=2,
    mask_time_length=2,
    mask_time_prob=0.3,
    mask_feature_prob=0.2,
    mask_feature_length=4,
)
FOUR_STAGES = dict(depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2], num_encoder_blocks=4)

# Name: configuration, class, batch, loss, and what the configuration has besides.
Row = tuple[str, str, Batch, Callable[..., Tensor], dict[str, Any]]
ROWS: dict[str, Row] = {
    "bert-answers": ("Bert", "BertForQuestionAnswering", ANSWERS, own_loss, {}),
    "bert-words": ("Bert", "BertForTokenClassification", WORDS, own_loss, {}),
    "bert-pretraining": (
        *("Bert", "BertForPreTraining"),
        together(input_ids=IDS, labels=classes(64, LENGTH), next_sentence_label=classes(2)),
        *(own_loss, {}),
    ),
    "bert-choice": (
        *("Bert", "BertForMultipleChoice"),
        together(input_ids=classes(VOCABULARY, 3, LENGTH, first=3), labels=classes(3)),
        *(own_loss, {}),
    ),
    "bert-several-labels": (
        *("Bert", "BertForSequenceClassification"),
        together(input_ids=IDS, labels=lambda n: (torch.rand(n, LABELS) < 0.5).float()),
        *(own_loss, {"problem_type": "multi_label_classification"}),
    ),
    "gpt2-padded": ("GPT2", "GPT2LMHeadModel", PADDED, own_loss, {}),
    "llama-padded": ("Llama", "LlamaForCausalLM", PADDED, own_loss, {}),
    "llama-words": ("Llama", "LlamaForTokenClassification", WORDS, own_loss, {}),
    "qwen3-answers": ("Qwen3", "Qwen3ForQuestionAnswering", ANSWERS, own_loss, {}),
    "markuplm-answers": ("MarkupLM", "MarkupLMForQuestionAnswering", ANSWERS, own_loss, {}),
    "splinter-answers": ("Splinter", "SplinterForQuestionAnswering", ANSWERS, own_loss, {}),
    "gpt2-two-heads": (
        *("GPT2", "GPT2DoubleHeadsModel"),
        together(
            input_ids=classes(VOCABULARY, 2, LENGTH, first=3),
            labels=classes(VOCABULARY, 2, LENGTH),
            mc_token_ids=classes(LENGTH, 2),
            mc_labels=classes(2),
        ),
        *(_both_losses, {}),
    ),
    "dpr": ("DPR", "DPRQuestionEncoder", together(input_ids=IDS), _contrastive_loss, {}),
    "imagegpt": (
        *("ImageGPT", "ImageGPTForImageClassification"),
        together(input_ids=IDS, labels=classes(LABELS)),
        *(own_loss, {}),
    ),
    "vit-mae": ("ViTMAE", "ViTMAEForPreTraining", PICTURES, own_loss, DECODER),
    "vit-hidden-patches": (
        *("ViT", "ViTForMaskedImageModeling"),
        together(
            pixel_values=numbers(3, SIDE, SIDE), bool_masked_pos=lambda n: torch.rand(n, 16) < 0.5
        ),
        *(own_loss, {"encoder_stride": 8}),
    ),
    "layoutlmv3": (
        *("LayoutLMv3", "LayoutLMv3ForTokenClassification"),
        together(
            input_ids=IDS,
            bbox=lambda n: torch.zeros(n, LENGTH, 4, dtype=torch.long),
            pixel_values=numbers(3, SIDE, SIDE),
            labels=classes(LABELS, LENGTH),
        ),
        *(own_loss, {"input_size": SIDE, "coordinate_size": 4, "shape_size": 8}),
    ),
    "visual-bert": (
        *("VisualBert", "VisualBertForQuestionAnswering"),
        together(
            input_ids=IDS,
            attention_mask=lambda n: torch.ones(n, LENGTH, dtype=torch.long),
            visual_embeds=numbers(4, 16),
            visual_attention_mask=lambda n: torch.ones(n, 4),
            labels=lambda n: torch.rand(n, LABELS).softmax(-1),
        ),
        *(own_loss, {"visual_embedding_dim": 16}),
    ),
    "mistral4": (*("Mistral4", "Mistral4ForCausalLM", TEXT, own_loss, {"num_key_value_heads": 4}),),
    "privacy-words": (
        *("OpenAIPrivacyFilter", "OpenAIPrivacyFilterForTokenClassification", WORDS, own_loss, {}),
    ),
    "luke-entities": (
        *("Luke", "LukeForEntityPairClassification"),
        together(
            input_ids=IDS,
            entity_ids=classes(20, 2),
            entity_position_ids=classes(LENGTH, 2, 4),
            labels=classes(LABELS),
        ),
        *(own_loss, {"entity_vocab_size": 20, "entity_emb_size": 16}),
    ),
    "dinov3": ("DINOv3ViT", "DINOv3ViTModel", PICTURES, _state_loss, {}),
    "sam-vision": (
        *("SamVision", "SamVisionModel", PICTURES, _state_loss),
        dict(global_attn_indexes=[1], window_size=2, output_channels=8),
    ),
    "vitdet": (
        *("VitDet", "VitDetModel", PICTURES, _state_loss),
        dict(pretrain_image_size=SIDE, window_size=2, window_block_indices=[0]),
    ),
    "aimv2": ("Aimv2Vision", "Aimv2VisionModel", PICTURES, _state_loss, {}),
    "glpn": (
        *("GLPN", "GLPNForDepthEstimation"),
        together(pixel_values=numbers(3, 64, 64), labels=lambda n: torch.rand(n, 64, 64) + 0.1),
        *(own_loss, {**FOUR_STAGES, "hidden_sizes": [8, 8, 16, 16], "decoder_hidden_size": 8}),
    ),
    "patchtst": (
        *("PatchTST", "PatchTSTForPrediction", PAST, own_loss),
        {**PATCHES, "prediction_length": 8},
    ),
    "patchtst-pretraining": (
        *("PatchTST", "PatchTSTForPretraining", together(past_values=numbers(32, 3)), own_loss),
        PATCHES,
    ),
    "patchtsmixer": (
        *("PatchTSMixer", "PatchTSMixerForPrediction", PAST, own_loss),
        {**PATCHES, "prediction_length": 8},
    ),
    "time-series": (
        *("TimeSeriesTransformer", "TimeSeriesTransformerForPrediction"),
        *(SERIES, own_loss, LAGS),
    ),
    "informer": ("Informer", "InformerForPrediction", SERIES, own_loss, LAGS),
    "autoformer": (
        *("Autoformer", "AutoformerForPrediction", SERIES, own_loss),
        {**LAGS, "moving_average": 5},
    ),
    "decision-transformer": (
        *("DecisionTransformer", "DecisionTransformerModel", GAMES, _actions_loss, {}),
    ),
    "canine": (
        *("Canine", "CanineForTokenClassification"),
        together(input_ids=classes(VOCABULARY, 32, first=3), labels=classes(LABELS, 32)),
        *(own_loss, dict(downsampling_rate=4, local_transformer_stride=8, num_hash_buckets=32)),
    ),
    "ast": (
        *("AST", "ASTForAudioClassification"),
        together(input_values=numbers(32, 16), labels=classes(LABELS)),
        *(own_loss, {"max_length": 32}),
    ),
    "wav2vec2-hidden-spans": (
        "Wav2Vec2",
        "Wav2Vec2ForSequenceClassification",
        SOUND,
        own_loss,
        HIDES,
    ),
    "wav2vec2-padded": (
        *("Wav2Vec2", "Wav2Vec2ForSequenceClassification"),
        together(
            input_values=numbers(1600),
            labels=classes(LABELS),
            attention_mask=lambda n: (torch.arange(1600) < torch.randint(900, 1601, (n, 1))).long(),
        ),
        *(own_loss, {**HIDES, "feat_extract_norm": "layer"}),
    ),
    "unispeech-hidden-spans": (
        *("UniSpeech", "UniSpeechForSequenceClassification", SOUND, own_loss, HIDES),
    ),
    "whisper-hidden-spans": (
        *("Whisper", "WhisperForConditionalGeneration"),
        together(input_features=numbers(16, 64), labels=IDS),
        own_loss,
        dict(
            apply_spec_augment=True,
            mask_time_length=4,
            mask_feature_prob=0.1,
            mask_feature_length=3,
        ),
    ),
    "wav2vec2-bert-hidden-spans": (
        *("Wav2Vec2Bert", "Wav2Vec2BertForSequenceClassification"),
        together(input_features=numbers(20, 160), labels=classes(LABELS)),
        *(own_loss, dict(feature_projection_input_dim=160, mask_time_length=3, mask_time_prob=0.2)),
    ),
}


def _maker(row: Row) -> Callable[[], Entry]:
    config_name, model_name, batch, loss, fields = row

    def make() -> Entry:
        import transformers

        config = configuration(getattr(transformers, f"{config_name}Config"), fields)
        config.num_labels = 2 if batch is ANSWERS else LABELS
        return Entry(getattr(transformers, model_name)(config).train(), batch, loss)

    return make


MODELS: dict[str, Callable[[], Entry]] = {
    f"transformers/heads/{name}": _maker(row) for name, row in ROWS.items()
}

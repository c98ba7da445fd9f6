"""Models of Hugging Face's transformers that hear or speak: with parts, batches and losses of their
own, which the tables of tasks (hugging_face.py) have no row for."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.nn import functional as F

from entry import Entry, Tensor, Tensors, classes, numbers, own_loss, together
from pictures_and_text import IMAGE, TEXT, VOCABULARY, WORDS

IDS = classes(IMAGE, WORDS, first=3)
SPOKEN = classes(IMAGE, 8, first=3)
WHOLE = dict(attention_mask=lambda n: torch.ones(n, WORDS, dtype=torch.long))
HEADS = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
WHISPER = dict(HEADS, num_mel_bins=16, max_source_positions=32)


def _heard(places: int, **draws: Callable[[int], Tensor]) -> Callable[[int], Tensors]:
    """Words, of which the second and those behind it are places of a sound's features."""

    def batch(n: int) -> Tensors:
        ids = torch.randint(3, IMAGE - 1, (n, WORDS + places))
        ids[:, 1 : 1 + places] = IMAGE
        labels = ids.masked_fill(ids == IMAGE, -100)
        sound = torch.randn(n, 16, 64)
        return {"input_ids": ids, "labels": labels, "input_features": sound, **together(**draws)(n)}

    return batch


def _audible(n: int) -> Tensor:
    return torch.ones(n, 64, dtype=torch.long)


def _contrastive(model: Any, **inputs: Tensor) -> Tensor:
    return model(**inputs, return_loss=True).loss


def _spectrogram_loss(model: Any, labels: Tensor, **inputs: Tensor) -> Tensor:
    return F.l1_loss(model(**inputs, labels=labels).spectrogram, labels)


def _codec_loss(model: Any, input_values: Tensor) -> Tensor:
    """The waves that come back, beside the quantizers' own loss."""
    out = model(input_values)
    return F.l1_loss(out.audio_values, input_values.flatten(1)) + out.loss.mean()


SPEECH = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    encoder_layers=2,
    encoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_layers=2,
    decoder_attention_heads=4,
    decoder_ffn_dim=48,
    conv_dim=(16, 16),
    conv_stride=(10, 8),
    conv_kernel=(10, 8),
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=2,
    num_mel_bins=16,
    speech_decoder_prenet_units=16,
    speaker_embedding_dim=8,
    speech_decoder_postnet_units=16,
    speech_decoder_postnet_layers=2,
    max_speech_positions=64,
    max_text_positions=64,
    encoder_max_relative_position=8,
    mask_time_length=2,
)
CODES = dict(
    vocab_size=VOCABULARY,
    max_position_embeddings=64,
    num_hidden_layers=2,
    ffn_dim=48,
    num_attention_heads=4,
    hidden_size=32,
    num_codebooks=2,
    pad_token_id=VOCABULARY,
    bos_token_id=VOCABULARY,
)
DEPTH = dict(
    num_codebooks=4,
    vocab_size=20,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
)
MIMI = dict(
    model_type="mimi",
    hidden_size=16,
    num_filters=4,
    upsampling_ratios=[2, 2],
    codebook_size=16,
    codebook_dim=8,
    num_quantizers=4,
    vector_quantization_hidden_dimension=8,
    num_hidden_layers=1,
    intermediate_size=24,
    num_attention_heads=2,
    num_key_value_heads=2,
    head_dim=8,
    upsample_groups=4,
)
CSM = DEPTH | dict(
    text_vocab_size=VOCABULARY,
    pad_token_id=62,
    codebook_pad_token_id=18,
    bos_token_id=1,
    audio_token_id=62,
    audio_eos_token_id=63,
    max_position_embeddings=64,
    codec_config=MIMI,
    depth_decoder_config=DEPTH | dict(backbone_hidden_size=32, max_position_embeddings=8),
)
MOONSHINE = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=48,
    encoder_num_hidden_layers=2,
    decoder_num_hidden_layers=2,
    encoder_num_attention_heads=4,
    decoder_num_attention_heads=4,
    max_position_embeddings=64,
    pad_token_id=0,
)
STREAMING = HEADS | dict(num_key_value_heads=4, max_position_embeddings=64)
CLAP = dict(
    projection_dim=32,
    text_config=HEADS | dict(vocab_size=VOCABULARY, max_position_embeddings=64, projection_dim=32),
    audio_config=dict(
        window_size=4,
        num_mel_bins=8,
        spec_size=32,
        hidden_size=32,
        depths=(1, 1),
        num_attention_heads=(2, 4),
        patch_embeds_hidden_size=16,
        num_hidden_layers=2,
        projection_dim=32,
    ),
)
LATENT = dict(
    num_latents=8,
    d_latents=16,
    d_model=32,
    num_blocks=1,
    num_self_attends_per_block=2,
    num_self_attention_heads=2,
    num_cross_attention_heads=2,
    vocab_size=VOCABULARY,
    max_position_embeddings=WORDS,
)
DAC = dict(
    encoder_hidden_size=4,
    downsampling_ratios=(2, 4),
    decoder_hidden_size=16,
    n_codebooks=3,
    codebook_size=16,
    codebook_dim=4,
)
WAVES = numbers(3200)
CALLED = dict(speaker_embeddings=numbers(8))

# Name: class, configuration and its fields, batch and loss.
Row = tuple[str, str, dict[str, Any], Callable[[int], Tensors], Callable[..., Tensor]]
ROWS: dict[str, Row] = {
    "speecht5-hears": (
        *("SpeechT5ForSpeechToText", "SpeechT5", SPEECH),
        *(together(input_values=numbers(1600), labels=SPOKEN), own_loss),
    ),
    "speecht5-speaks": (
        *("SpeechT5ForTextToSpeech", "SpeechT5", SPEECH | {"use_guided_attention_loss": False}),
        *(together(input_ids=IDS, labels=numbers(8, 16), **CALLED), own_loss),
    ),
    "speecht5-guided": (
        *("SpeechT5ForTextToSpeech", "SpeechT5", SPEECH),
        *(together(input_ids=IDS, labels=numbers(8, 16), **WHOLE, **CALLED), own_loss),
    ),
    "speecht5-converts": (
        *("SpeechT5ForSpeechToSpeech", "SpeechT5", SPEECH),
        together(input_values=numbers(1600), labels=numbers(8, 16), **CALLED),
        _spectrogram_loss,
    ),
    "musicgen-decoder": (
        *("MusicgenForCausalLM", "MusicgenDecoder", CODES),
        together(input_ids=classes(VOCABULARY, 2, 10), labels=classes(VOCABULARY, 10, 2)),
        lambda model, input_ids, labels: model(input_ids.flatten(0, 1), labels=labels).loss,
    ),
    "moonshine": (
        *("MoonshineForConditionalGeneration", "Moonshine", MOONSHINE),
        *(together(input_values=WAVES, labels=SPOKEN), own_loss),
    ),
    "moonshine_streaming": (
        *("MoonshineStreamingForConditionalGeneration", "MoonshineStreaming"),
        STREAMING
        | dict(
            vocab_size=VOCABULARY,
            decoder_start_token_id=1,
            encoder_config=STREAMING | dict(sliding_windows=((4, 2), (4, 0))),
        ),
        *(together(input_values=WAVES, labels=SPOKEN), own_loss),
    ),
    "clap": (
        *("ClapModel", "Clap", CLAP),
        *(together(input_ids=IDS, input_features=numbers(1, 100, 8), **WHOLE), _contrastive),
    ),
    "csm": (
        *("CsmForConditionalGeneration", "Csm", CSM),
        together(input_ids=classes(16, 10, 4, first=1), labels=classes(16, 10, 4, first=1)),
        own_loss,
    ),
    "dac": ("DacModel", "Dac", DAC, together(input_values=numbers(1, 320)), _codec_loss),
    "perceiver-masked-words": (
        *("PerceiverForMaskedLM", "Perceiver", LATENT),
        *(together(inputs=IDS, labels=IDS), own_loss),
    ),
    "qwen2_audio": (
        *("Qwen2AudioForConditionalGeneration", "Qwen2Audio"),
        dict(
            audio_config=dict(
                model_type="qwen2_audio_encoder",
                d_model=32,
                encoder_layers=2,
                encoder_attention_heads=4,
                encoder_ffn_dim=48,
                num_mel_bins=16,
                max_source_positions=32,
            ),
            text_config=dict(model_type="qwen2", **TEXT),
            audio_token_index=IMAGE,
        ),
        _heard(
            16,
            feature_attention_mask=_audible,
            attention_mask=lambda n: torch.ones(n, WORDS + 16, dtype=torch.long),
        ),
        own_loss,
    ),
    "audioflamingo3": (
        *("AudioFlamingo3ForConditionalGeneration", "AudioFlamingo3"),
        dict(
            audio_config=dict(model_type="audioflamingo3_encoder", **WHISPER),
            text_config=dict(model_type="qwen2", **TEXT),
            audio_token_id=IMAGE,
        ),
        *(_heard(16, input_features_mask=_audible), own_loss),
    ),
    "voxtral": (
        *("VoxtralForConditionalGeneration", "Voxtral"),
        dict(
            audio_config=WHISPER | dict(model_type="voxtral_encoder", intermediate_size=128),
            text_config=dict(model_type="llama", head_dim=8, **TEXT),
            audio_token_id=IMAGE,
        ),
        *(_heard(8), own_loss),
    ),
}


def maker(row: Row) -> Callable[[], Entry]:
    class_name, config, fields, batch, loss = row

    def make() -> Entry:
        import transformers

        model = getattr(transformers, class_name)(
            getattr(transformers, f"{config}Config")(**fields)
        )
        return Entry(model.train(), batch, loss)

    return make


MODELS: dict[str, Callable[[], Entry]] = {
    f"transformers/sound/{name}": maker(row) for name, row in ROWS.items()
}

"""Models of Hugging Face's transformers: tiny configurations of many families.

A configuration is made of its class's own fields: those that `TINY` names get its values, in the
parts of a composite one too, and then come the overrides of the model's row.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

import torch

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


CAUSAL = """
afmoe
apertus
arcee
bamba mamba_n_heads=8 mamba_d_head=8 attn_layer_indices=[1]
bert is_decoder=True
biogpt
bitnet
bloom
codegen rotary_dim=4
cohere
cohere2
cpmant
ctrl
dbrx attn_config={"kv_n_heads":2,"clip_qkv":8.0,"rope_theta":10000.0} ffn_config={"ffn_hidden_size":48,"moe_num_experts":4,"moe_top_k":2}
deepseek_v2 num_key_value_heads=4
deepseek_v3 num_key_value_heads=4
diffllama
doge
dots1
electra is_decoder=True
ernie4_5
ernie4_5_moe
exaone4
falcon
falcon_h1 mamba_n_heads=8 mamba_d_head=8 mamba_d_ssm=64 mamba_chunk_size=8
falcon_mamba
flex_olmo
gemma
gemma2
gemma3_text
gemma4_text vocab_size_per_layer_input=64 hidden_size_per_layer_input=8
glm
glm4
glm4_moe
gpt2
gpt_bigcode
gpt_neo attention_types=[[["global","local"],1]]
gpt_neox
gpt_oss
gptj rotary_dim=4
granite
granitemoe
granitemoehybrid mamba_n_heads=8 mamba_d_head=8 layer_types=["mamba","attention"]
granitemoeshared
helium
hunyuan_v1_dense
hunyuan_v1_moe
jamba attn_layer_period=2 attn_layer_offset=1 expert_layer_period=1 expert_layer_offset=0 num_experts=4
jetmoe
lfm2
llama
llama4_text
mamba
mamba2 num_heads=8 head_dim=8 hidden_size=32
mellum
minicpm3 num_key_value_heads=4
minimax
ministral
mistral
mixtral
modernbert-decoder
mpt
nanochat
nemotron
nemotron_h layers_block_type=["mamba","attention"] mamba_num_heads=8 mamba_head_dim=8 n_groups=2 moe_shared_expert_intermediate_size=16
olmo
olmo2
olmo3
olmoe
openai-gpt
opt
persimmon
phi
phi3
phimoe
qwen2
qwen2_moe
qwen3
qwen3_moe
qwen3_next layer_types=["linear_attention","full_attention"]
recurrent_gemma num_hidden_layers=3
reformer is_decoder=True axial_pos_embds=False attention_head_size=8 feed_forward_size=48 lsh_attn_chunk_length=4 local_attn_chunk_length=4 num_hashes=1 num_buckets=4
rwkv
seed_oss
smollm3
stablelm
starcoder2
xglm
xlnet
youtu num_key_value_heads=4
zamba num_hidden_layers=4 layers_block_type=["mamba","hybrid","mamba","hybrid"] num_key_value_heads=4
zamba2 num_hidden_layers=3 layers_block_type=["mamba","hybrid","mamba"] n_mamba_heads=8 chunk_size=4 num_key_value_heads=4
"""

MASKED = """
albert
bert
big_bird attention_type="original_full"
camembert
convbert
deberta
deberta-v2
distilbert hidden_dim=48
electra
ernie
esm
eurobert
flaubert
fnet
funnel block_sizes=(1,1) d_head=8 max_position_embeddings=64
ibert
longformer attention_window=4
mobilebert
modernbert
mpnet
mra
nomic_bert
nystromformer
rembert
roberta
roformer
squeezebert
xlm
xlm-roberta
yoso
"""

SEQ2SEQ = """
bart
bigbird_pegasus attention_type="original_full"
blenderbot
blenderbot-small
fsmt src_vocab_size=64 tgt_vocab_size=64
led attention_window=4 max_encoder_position_embeddings=64 max_decoder_position_embeddings=64
longt5 decoder_start_token_id=0
m2m_100
marian
mbart
mt5
mvp
nllb-moe
pegasus
pegasus_x dropout=0.0  # its last dropout of global tokens is dead, see docs/parity.md
plbart
prophetnet
switch_transformers decoder_start_token_id=0
t5 decoder_start_token_id=0
umt5
"""

TEXT_CLASSES = """
bert
distilbert hidden_dim=48
gpt2
llama
roberta
xlnet
"""

IMAGES = """
beit use_relative_position_bias=True
bit hidden_sizes=(8,16) depths=(1,1) num_groups=4 embedding_size=8
convnext hidden_sizes=(8,16) depths=(1,1) num_stages=2 patch_size=4
convnextv2 hidden_sizes=(8,16) depths=(1,1) num_stages=2 patch_size=4
cvt
deit
dinov2
efficientnet width_coefficient=0.25 depth_coefficient=0.3 hidden_dim=320
focalnet embed_dim=8 hidden_sizes=(8,16) depths=(1,1) focal_levels=(2,2) focal_windows=(3,3) patch_size=4
hgnet_v2 embedding_size=8 depths=(1,1) hidden_sizes=(16,32) stem_channels=(3,8,8) stage_in_channels=(8,16) stage_mid_channels=(8,8) stage_out_channels=(16,32) stage_num_blocks=(1,1) stage_downsample=(False,True) stage_downsample_strides=(2,2) stage_light_block=(False,True) stage_kernel_size=(3,5) stage_numb_of_layers=(2,2)
hiera embed_dim=8 image_size=(32,32) patch_size=(3,3) patch_stride=(2,2) patch_padding=(1,1) depths=(1,1) num_heads=(1,2) num_query_pool=1 masked_unit_size=(4,4) masked_unit_attention=(True,False)
ijepa
levit hidden_sizes=(16,32,32) depths=(1,1,1) key_dim=(4,4,4) num_attention_heads=(2,4,4) image_size=64 patch_size=16
mobilenet_v1 depth_multiplier=0.25
mobilenet_v2 depth_multiplier=0.25
mobilevit hidden_sizes=(16,16,16) neck_hidden_sizes=(8,8,8,8,8,8,16) patch_size=2
mobilevitv2 base_attn_unit_dims=(16,16,16) n_attn_blocks=(1,1,1) width_multiplier=0.25 patch_size=2 image_size=64
poolformer depths=(1,1,1,1) hidden_sizes=(8,8,16,16)
pvt depths=(1,1,1,1) hidden_sizes=(8,8,16,16) num_attention_heads=(1,1,2,2) mlp_ratios=(2,2,2,2)
pvt_v2 depths=(1,1,1,1) hidden_sizes=(8,8,16,16) num_attention_heads=(1,1,2,2) mlp_ratios=(2,2,2,2)
regnet embedding_size=8 hidden_sizes=(8,16) depths=(1,1) groups_width=4
resnet embedding_size=8 hidden_sizes=(16,32) depths=(1,1)
segformer depths=(1,1,1,1) hidden_sizes=(8,8,16,16) num_attention_heads=(1,1,2,2) decoder_hidden_size=16
swiftformer image_size=64 depths=(1,1,1,1) embed_dims=(8,8,16,16)
swin embed_dim=8 depths=(2,2) num_heads=(1,2) window_size=4 patch_size=2
swinv2 embed_dim=8 depths=(2,2) num_heads=(1,2) window_size=4 patch_size=2
vit
vit_msn
"""

MAPS = """
beit num_hidden_layers=4 out_indices=[1,2,3,4] drop_path_rate=0.0 pool_scales=(2,4) image_size=64  # as pegasus_x
dpt num_hidden_layers=4 backbone_out_indices=(0,1,2,3) neck_hidden_sizes=(8,8,16,16) fusion_hidden_size=16
segformer depths=(1,1,1,1) hidden_sizes=(8,8,16,16) num_attention_heads=(1,1,2,2) decoder_hidden_size=16
"""

CONTRASTIVE = """
align vision_config.image_size=96 projection_dim=80 vision_config.width_coefficient=0.25 vision_config.depth_coefficient=0.3 vision_config.hidden_dim=80 text_config.hidden_size=32
chinese_clip
clip
siglip
"""

CTC = """
hubert conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
sew conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
wav2vec2 conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
wav2vec2-conformer conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 vocab_size=64 apply_spec_augment=False
wavlm conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
"""

AUDIO = """
unispeech conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2
wav2vec2 conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2
"""

SPEECH = """
speech_to_text input_feat_per_channel=16 conv_channels=32 max_source_positions=64
whisper
"""

VIDEO = """
timesformer
videomae
vivit
"""

# Task: its table, transformers' mapping of model types to classes, the batch, and the loss.
TASKS: dict[str, tuple[str, str, Callable[[Any], Callable[[int], Tensors]], Any]] = {
    "causal": (CAUSAL, "CAUSAL_LM", _text, own_loss),
    "masked": (MASKED, "MASKED_LM", _text, own_loss),
    "seq2seq": (SEQ2SEQ, "SEQ_TO_SEQ_CAUSAL_LM", _text, own_loss),
    "text-classes": (TEXT_CLASSES, "SEQUENCE_CLASSIFICATION", _text_labels, own_loss),
    "images": (IMAGES, "IMAGE_CLASSIFICATION", _image_labels, own_loss),
    "maps": (MAPS, "SEMANTIC_SEGMENTATION", _image_maps, own_loss),
    "contrastive": (CONTRASTIVE, "ZERO_SHOT_IMAGE_CLASSIFICATION", _pairs, _contrastive_loss),
    "ctc": (CTC, "CTC", _waves_text, own_loss),
    "audio": (AUDIO, "AUDIO_CLASSIFICATION", _waves, own_loss),
    "speech": (SPEECH, "SPEECH_SEQ_2_SEQ", _mels, own_loss),
    "video": (VIDEO, "VIDEO_CLASSIFICATION", _video, own_loss),
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

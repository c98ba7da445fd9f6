"""Families of Hugging Face's transformers, by task: a row has the type of a model, and what its
configuration has besides `TINY` (hugging_face.py)."""

CAUSAL = """
afmoe
apertus
arcee
aria_text
axk1 num_key_value_heads=4
axk2 num_key_value_heads=4
bailing_hybrid num_key_value_heads=4 layer_types=["linear_attention","full_attention"]
bamba mamba_n_heads=8 mamba_d_head=8 attn_layer_indices=[1]
beam
bert is_decoder=True
bert-generation
biogpt
bitnet
bloom
codegen rotary_dim=4
cohere
cohere2
cohere2_moe
cpmant
ctrl
cwm
data2vec-text
dbrx attn_config={"kv_n_heads":2,"clip_qkv":8.0,"rope_theta":10000.0} ffn_config={"ffn_hidden_size":48,"moe_num_experts":4,"moe_top_k":2}
deepseek_v2 num_key_value_heads=4
deepseek_v3 num_key_value_heads=4
deepseek_v32 num_key_value_heads=4
deepseek_v4
diffllama
doge
dots1
dots3_note_text num_key_value_heads=4
electra is_decoder=True
ernie4_5
ernie4_5_moe
exaone4
exaone_moe
falcon
falcon_h1 mamba_n_heads=8 mamba_d_head=8 mamba_d_ssm=64 mamba_chunk_size=8
falcon_mamba
flex_olmo
flint
gemma
gemma2
gemma3_text
gemma4_text vocab_size_per_layer_input=64 hidden_size_per_layer_input=8
gemma4_unified
gemma4_unified_text
glm
glm4
glm4_moe
glm4_moe_lite num_key_value_heads=4
glm_moe_dsa num_key_value_heads=4
gpt-sw3
gpt2
gpt_bigcode
gpt_neo attention_types=[[["global","local"],1]]
gpt_neox
gpt_neox_japanese
gpt_oss
gptj rotary_dim=4
granite
granite_swa
granitemoe
granitemoe_swa
granitemoehybrid mamba_n_heads=8 mamba_d_head=8 layer_types=["mamba","attention"]
granitemoeshared
helium
hrm_text
hunyuan_v1_dense
hunyuan_v1_moe
hy_v3
hy_v4
hyperclovax
inkling2_text
inkling_text
internlm3
iquestcoder
jais2
jamba attn_layer_period=2 attn_layer_offset=1 expert_layer_period=1 expert_layer_offset=0 num_experts=4
jetmoe
kimi_linear num_key_value_heads=4 layer_types=["linear_attention","full_attention"]
kolibri1
laguna
lfm2
lfm2_moe layer_types=["conv","full_attention"]
lfm3 layer_types=["conv","full_attention"]
llama
llama4_text
longcat_flash num_key_value_heads=4
mamba
mamba2 num_heads=8 head_dim=8 hidden_size=32
megatron-bert
mellum
mimo_v2_flash
minicpm3 num_key_value_heads=4
minimax
minimax_m2
minimax_m3_vl_text
ministral
ministral3
mistral
mixtral
mllama
modernbert-decoder
mpt
nanochat
nemotron
nemotron_h layers_block_type=["mamba","attention"] mamba_num_heads=8 mamba_head_dim=8 n_groups=2 moe_shared_expert_intermediate_size=16
olmo
olmo2
olmo3
olmo_hybrid
olmoe
openai-gpt
opt
persimmon
phi
phi3
phi4_multimodal
phimoe
qwen2
qwen2_moe
qwen3
qwen3_5_moe_text layer_types=["linear_attention","full_attention"]
qwen3_5_text layer_types=["linear_attention","full_attention"]
qwen3_moe
qwen3_next layer_types=["linear_attention","full_attention"]
recurrent_gemma num_hidden_layers=3
reformer is_decoder=True axial_pos_embds=False attention_head_size=8 feed_forward_size=48 lsh_attn_chunk_length=4 local_attn_chunk_length=4 num_hashes=1 num_buckets=4
roberta-prelayernorm
roc_bert
rwkv
seed_oss
smollm3
solar_open
stablelm
starcoder2
trocr
vaultgemma
xglm
xlm-roberta-xl
xlnet
xmod default_language="en_XX" is_decoder=True
youtu num_key_value_heads=4
zamba num_hidden_layers=4 layers_block_type=["mamba","hybrid","mamba","hybrid"] num_key_value_heads=4
zamba2 num_hidden_layers=3 layers_block_type=["mamba","hybrid","mamba"] n_mamba_heads=8 chunk_size=4 num_key_value_heads=4
zaya router_hidden_size=16 num_experts_per_tok=1
"""

MASKED = """
albert
bert
big_bird attention_type="original_full"
camembert
convbert
data2vec-text
deberta
deberta-v2
distilbert hidden_dim=48
electra
ernie
esm
esmc num_key_value_heads=4
eurobert
flaubert
fnet
funnel block_sizes=(1,1) d_head=8 max_position_embeddings=64
gte
ibert
jina_embeddings_v3
layoutlm
longformer attention_window=4
luke entity_vocab_size=20 entity_emb_size=16
megatron-bert
mobilebert
modernbert
mpnet
mra
neomme head_dim=16
nomic_bert
nystromformer
rembert
roberta
roberta-prelayernorm
roc_bert
roformer
squeezebert
tapas
ultrabert
xlm
xlm-roberta
xlm-roberta-xl
xmod default_language="en_XX"
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
seamless_m4t
seamless_m4t_v2
switch_transformers decoder_start_token_id=0
t5 decoder_start_token_id=0
t5gemma
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
data2vec-vision
deit
dinov2
dinov2_with_registers
efficientnet width_coefficient=0.25 depth_coefficient=0.3 hidden_dim=320
focalnet embed_dim=8 hidden_sizes=(8,16) depths=(1,1) focal_levels=(2,2) focal_windows=(3,3) patch_size=4
hgnet_v2 embedding_size=8 depths=(1,1) hidden_sizes=(16,32) stem_channels=(3,8,8) stage_in_channels=(8,16) stage_mid_channels=(8,8) stage_out_channels=(16,32) stage_num_blocks=(1,1) stage_downsample=(False,True) stage_downsample_strides=(2,2) stage_light_block=(False,True) stage_kernel_size=(3,5) stage_numb_of_layers=(2,2)
hiera embed_dim=8 image_size=(32,32) patch_size=(3,3) patch_stride=(2,2) patch_padding=(1,1) depths=(1,1) num_heads=(1,2) num_query_pool=1 masked_unit_size=(4,4) masked_unit_attention=(True,False)
ijepa
levit hidden_sizes=(16,32,32) depths=(1,1,1) key_dim=(4,4,4) num_attention_heads=(2,4,4) image_size=64 patch_size=16
metaclip_2
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
mobilenet_v2
mobilevit
mobilevitv2 base_attn_unit_dims=(16,16,16) n_attn_blocks=(1,1,1) width_multiplier=0.25 patch_size=2 image_size=256
segformer depths=(1,1,1,1) hidden_sizes=(8,8,16,16) num_attention_heads=(1,1,2,2) decoder_hidden_size=16
"""

CONTRASTIVE = """
align vision_config.image_size=96 projection_dim=80 vision_config.width_coefficient=0.25 vision_config.depth_coefficient=0.3 vision_config.hidden_dim=80 text_config.hidden_size=32
altclip
blip
chinese_clip
clip
clipseg
metaclip_2
siglip
tipsv2
"""

CTC = """
data2vec-audio conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=3 num_conv_pos_embedding_groups=2 apply_spec_augment=False
hubert conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
sew conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
sew-d conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
unispeech conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
unispeech-sat conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
wav2vec2 conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
wav2vec2-conformer conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 vocab_size=64 apply_spec_augment=False
wavlm conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
"""

AUDIO = """
hubert conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
unispeech conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2
wav2vec2 conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2
wavlm conv_dim=(16,16) conv_stride=(10,8) conv_kernel=(10,8) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2 apply_spec_augment=False
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

"""Hugging Face's GPT-2 and Llama, tiny and with random weights."""

import argparse

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from fsdp_mlir import TrainingStep


def gpt2(dropout: float) -> nn.Module:
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=67,
            n_positions=16,
            n_embd=24,
            n_layer=2,
            n_head=2,
            resid_pdrop=dropout,
            embd_pdrop=dropout,
            attn_pdrop=dropout,
            use_cache=False,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def llama(kv_heads: int, attention: str) -> nn.Module:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=67,
            hidden_size=24,
            intermediate_size=53,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=kv_heads,
            max_position_embeddings=16,
            use_cache=False,
            attn_implementation=attention,
        )
    )


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=("gpt2", "llama"), required=True)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--attention", default="sdpa")
    flags = parser.parse_args(argv)

    torch.manual_seed(0)
    if flags.model == "gpt2":
        model = gpt2(flags.dropout)
    else:
        model = llama(flags.kv_heads, flags.attention)
    model.train()
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(67, (45, 12), generator=generator)
    batch = tokens[:3].clone()

    def loss(model: nn.Module, input_ids: torch.Tensor, labels: torch.Tensor):
        return model(input_ids=input_ids, labels=labels).loss

    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        # One tensor under two names, as labels of a language model are given.
        inputs={"input_ids": batch, "labels": batch},
        data={"input_ids": tokens, "labels": tokens},
        seed=11,
    )

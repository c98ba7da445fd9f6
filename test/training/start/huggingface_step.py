"""A tiny Llama of Hugging Face's, built on meta and initialised by its own init_weights()."""

import argparse

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from fsdp_mlir import TrainingStep

STD = 0.05


def llama(tied: bool) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=67,
            hidden_size=24,
            intermediate_size=53,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=16,
            initializer_range=STD,
            tie_word_embeddings=tied,
            pad_token_id=3,
            use_cache=False,
        )
    )


def loss(model: nn.Module, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return model(input_ids=input_ids, labels=labels).loss


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tied", action="store_true")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--lr", type=float, default=0.0)
    flags = parser.parse_args(argv)
    if flags.real:
        model = llama(flags.tied)
    else:
        with torch.device("meta"):
            model = llama(flags.tied)
        model.to_empty(device="cpu")
        model.init_weights()
    tokens = torch.randint(67, (24, 12), generator=torch.Generator().manual_seed(2))
    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=torch.optim.AdamW(model.parameters(), lr=flags.lr),
        inputs={"input_ids": tokens[:2], "labels": tokens[:2]},
        data={"input_ids": tokens, "labels": tokens},
        steps=3,
        seed=5,
    )

"""GPT-2 in its sizes: what is compared with the CPU, and timed beside PyTorch, on GPUs.

With `--start meta` the model has no memory: each rank draws its part when it starts, so that a
plan for billions of parameters needs no file of weights.
"""

from __future__ import annotations

import argparse
import dataclasses

import torch
from torch import nn
from torch.nn import functional as F

from fsdp_mlir import MixedPrecisionPolicy, TrainingStep, fully_shard


@dataclasses.dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int
    vocabulary: int = 50304  # GPT-2's 50257, filled up to a multiple of 64
    length: int = 1024


SIZES = {
    "tiny": Size(2, 64, 4, vocabulary=512, length=32),
    "124m": Size(12, 768, 12),
    "350m": Size(24, 1024, 16),
    "774m": Size(36, 1280, 20),
    "1.5b": Size(48, 1600, 25),
    "3b": Size(36, 2560, 32),
}
PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        # Three products, so that the bias of the keys, which no loss depends on, has a name.
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.attention_norm(x)
        split = (
            layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(*split, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class GPT2(nn.Module):
    """tokens: [batch, length] int64; returns logits [batch, length, vocabulary]."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList(Block(size.width, size.heads) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss(model: nn.Module, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(tokens).flatten(0, 1).float(), targets.flatten())


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser(prog="gpt2.py")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--batch", type=int, default=4, help="sequences on one rank")
    parser.add_argument("--start", default="cpu", metavar="DEVICE", help="what it is built on")
    parser.add_argument("--precision", choices=PRECISIONS, help="of units; sums are fp32")
    parser.add_argument("--samples", type=int, help="more than one batch")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--sgd", action="store_true", help="with momentum, not AdamW")
    parser.add_argument("--fused", action="store_true", help="the optimizer's implementation")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches in a step")
    parser.add_argument("--max-norm", type=float, help="what gradients are clipped to")
    flags = parser.parse_args(argv)

    size = SIZES[flags.size]
    generator = torch.Generator().manual_seed(5)
    shape = (flags.samples or flags.batch, size.length + 1)
    text = torch.randint(size.vocabulary, shape, generator=generator)
    samples = {"tokens": text[:, :-1].clone(), "targets": text[:, 1:].clone()}
    torch.manual_seed(0)
    with torch.device(flags.start):
        model = GPT2(size)
    if flags.precision:
        policy = MixedPrecisionPolicy(PRECISIONS[flags.precision], torch.float32)
        for block in model.blocks:
            fully_shard(block, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    options = {"lr": flags.lr, "fused": flags.fused or None}
    if flags.sgd:
        optimizer: torch.optim.Optimizer = torch.optim.SGD(
            model.parameters(), momentum=0.9, **options
        )
    else:
        optimizer = torch.optim.AdamW(model.parameters(), **options)
    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=optimizer,
        inputs={name: tensor[: flags.batch].clone() for name, tensor in samples.items()},
        data=samples if flags.samples else None,
        steps=100,
        seed=1,
        accumulate=flags.accumulate,
        clip_grad_norm=flags.max_norm,
        scaler=torch.amp.GradScaler("cpu") if flags.precision == "fp16" else None,
    )

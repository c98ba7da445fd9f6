"""A small GPT; its sizes, optimizer and schedule are flags."""

import argparse
import functools
import math
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from fsdp_mlir import MixedPrecisionPolicy, TrainingStep, fully_shard

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(b, t, self.heads, c // self.heads).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.ln2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.ln1(x)))
        return x + self.dropout(self.down(F.gelu(self.up(self.ln2(x)))))


def saves(context: Any, op: Any, *args: Any, **options: Any) -> CheckpointPolicy:
    """The policy of a selective checkpoint: products of matrices are saved."""
    products = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if op in products else CheckpointPolicy.PREFER_RECOMPUTE


CHECKPOINTS: dict[str, Callable[[nn.Module, torch.Tensor], torch.Tensor]] = {
    "none": lambda block, x: block(x),
    "full": lambda block, x: checkpoint(block, x, use_reentrant=False),
    "selective": lambda block, x: checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=functools.partial(create_selective_checkpoint_contexts, saves),
    ),
}


class GPT(nn.Module):
    def __init__(self, flags: argparse.Namespace):
        super().__init__()
        self.tokens = nn.Embedding(flags.vocab, flags.width)
        self.positions = nn.Embedding(flags.length, flags.width)
        self.blocks = nn.ModuleList(
            Block(flags.width, flags.heads, flags.dropout) for _ in range(flags.layers)
        )
        self.checkpoint = CHECKPOINTS[flags.checkpoint]
        self.norm = nn.LayerNorm(flags.width)
        self.head = nn.Linear(flags.width, flags.vocab, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = self.checkpoint(block, x)
        return self.head(self.norm(x))


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--optimizer", choices=("sgd", "adam", "adamw", "muon", "adafactor"))
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--checkpoint", choices=CHECKPOINTS, default="none")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--precision", choices=PRECISIONS, help="of units; sums are fp32")
    parser.add_argument("--fused", action="store_true", help="the optimizer's implementation")
    flags = parser.parse_args(argv)

    samples, batch = 67, flags.batch
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(flags.vocab, (samples, flags.length + 1), generator=generator)

    torch.manual_seed(0)
    model = GPT(flags)
    if flags.precision:
        policy = MixedPrecisionPolicy(PRECISIONS[flags.precision], torch.float32)
        for block in model.blocks:
            fully_shard(block, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    parameters, fused = model.parameters(), flags.fused or None
    if flags.optimizer == "sgd":
        optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9, fused=fused)
    elif flags.optimizer == "adam":
        optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=fused)
    elif flags.optimizer == "adafactor":
        optimizer = torch.optim.Adafactor(parameters, lr=1e-2)
    elif flags.optimizer == "muon":  # for the blocks' matrices
        matrices = [p for p in model.blocks.parameters() if p.dim() == 2]
        others = [p for p in parameters if all(p is not matrix for matrix in matrices)]
        optimizer = [
            torch.optim.Muon(matrices, lr=0.02),
            torch.optim.AdamW(others, lr=1e-3, fused=fused),
        ]
    else:
        optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=fused)

    def loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        logits = model(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def warmup_and_cosine(i: int) -> float:
        if i < flags.warmup:
            return (i + 1) / flags.warmup
        return 0.5 * (1 + math.cos(math.pi * (i - flags.warmup) / 100))

    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=optimizer,
        inputs={"tokens": tokens[:batch].clone()},
        data={"tokens": tokens},
        lr_schedule=warmup_and_cosine if flags.warmup else None,
        steps=60,
    )

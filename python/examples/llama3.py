"""Llama 3 in its published sizes, without its weights: to see what the compiler makes of them.

    python -m fsdp_mlir.export --no-weights -o llama.pt python/examples/llama3.py --size 8b
    fsdp-translate --import-torchscript llama.pt -o llama.mlir
    fsdp-opt --fsdp-pipeline="mesh=64" llama.mlir -o llama.fsdp.mlir

Fake tensors have shapes and no memory, so the step of 405 billion parameters is captured on a
laptop. `--layers` takes fewer blocks than the size has. With `--start meta` the model is built on
meta and can be trained: each rank draws its part of the weights, and none ever holds the whole.
`--start real` makes weights before, for small sizes.

    python -m fsdp_mlir.train --nproc 2 python/examples/llama3.py --start meta --size debug \
        --seq_len 64
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

from fsdp_mlir import TrainingStep


@dataclasses.dataclass(frozen=True)
class Size:
    """`hidden` is the width inside the feed-forward network."""

    layers: int
    width: int
    heads: int
    key_heads: int
    hidden: int
    vocabulary: int = 128_256
    rope_base: float = 500_000.0


SIZES = {
    "debug": Size(2, 64, 4, 2, 160, vocabulary=256),
    "8b": Size(32, 4_096, 32, 8, 14_336),
    "70b": Size(80, 8_192, 64, 8, 28_672),
    "405b": Size(126, 16_384, 128, 8, 53_248),
}


_START = ("fake", "meta", "real")


def rotations(length: int, width: int, base: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of each position's angles: two tensors [length, width]."""
    frequencies = base ** (-torch.arange(0, width, 2).float() / width)
    angles = torch.outer(torch.arange(length).float(), frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Turns pairs (i, i + half) of x [batch, heads, length, width] by their position's angle."""
    low, high = x.chunk(2, dim=-1)
    return (x * cosine + torch.cat((-high, low), dim=-1) * sine).to(x.dtype)


class Attention(nn.Module):
    """Causal attention in which groups of heads share keys and values."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads, self.key_heads = size.heads, size.key_heads
        self.head_width = size.width // size.heads
        self.query = nn.Linear(size.width, size.heads * self.head_width, bias=False)
        self.key = nn.Linear(size.width, size.key_heads * self.head_width, bias=False)
        self.value = nn.Linear(size.width, size.key_heads * self.head_width, bias=False)
        self.out = nn.Linear(size.heads * self.head_width, size.width, bias=False)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape

        def split(y: torch.Tensor, heads: int) -> torch.Tensor:
            return y.view(batch, length, heads, self.head_width).transpose(1, 2)

        query = rotate(split(self.query(x), self.heads), cosine, sine)
        key = rotate(split(self.key(x), self.key_heads), cosine, sine)
        value = split(self.value(x), self.key_heads)
        group = self.heads // self.key_heads
        key, value = (y.repeat_interleave(group, dim=1) for y in (key, value))
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate = nn.Linear(size.width, size.hidden, bias=False)
        self.up = nn.Linear(size.width, size.hidden, bias=False)
        self.down = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(size.width, eps=1e-5)
        self.attention = Attention(size)
        self.norm2 = nn.RMSNorm(size.width, eps=1e-5)
        self.feed_forward = FeedForward(size)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), cosine, sine)
        return x + self.feed_forward(self.norm2(x))


class Llama(nn.Module):
    """tokens: [batch, length] int64; returns logits [batch, length, vocabulary]."""

    def __init__(self, size: Size, length: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.layers = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width, eps=1e-5)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        cosine, sine = rotations(length, size.width // size.heads, size.rope_base)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def init_weights(self) -> None:
        """Llama's own: normal, cut off at three deviations, narrower in deeper layers."""
        nn.init.normal_(self.embedding.weight)
        for depth, layer in enumerate(self.layers):
            for name, parameter in layer.named_parameters():
                if parameter.dim() == 2:
                    deviation = 0.02 if "out" not in name else 0.02 / (2 * (depth + 1)) ** 0.5
                    nn.init.trunc_normal_(
                        parameter, std=deviation, a=-3 * deviation, b=3 * deviation
                    )
        deviation = self.head.in_features**-0.5
        nn.init.trunc_normal_(self.head.weight, std=deviation, a=-3 * deviation, b=3 * deviation)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine)
        return self.head(self.norm(x))


def loss(model: nn.Module, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="llama3.py", description="Llama 3 without weights.")
    flag = parser.add_argument
    flag("--size", choices=SIZES, default="8b")
    flag("--layers", type=int, help="blocks (the size's)")
    flag("--batch_size", type=int, default=1, help="sequences on one rank")
    flag("--seq_len", type=int, default=4_096, help="tokens in a sequence")
    flag("--lr", type=float, default=3e-4)
    flag("--start", choices=_START, default="fake", help="what the model is built on (fake)")
    flag("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    if args.layers is not None and args.layers < 1:
        parser.error(f"--layers {args.layers} is not positive")
    return args


def training_step(argv: list[str]) -> TrainingStep:
    from torch._subclasses.fake_tensor import FakeTensorMode

    args = parse(argv)
    size = SIZES[args.size]
    if args.layers:
        size = dataclasses.replace(size, layers=args.layers)
    torch.manual_seed(args.seed)
    with FakeTensorMode() if args.start == "fake" else contextlib.nullcontext():
        with torch.device("meta" if args.start == "meta" else "cpu"):
            model = Llama(size, args.seq_len)
        if args.start != "fake":
            model.init_weights()
        optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1)
        text = torch.randint(size.vocabulary, (args.batch_size, args.seq_len + 1))
        inputs = {"tokens": text[:, :-1].clone(), "targets": text[:, 1:].clone()}
    return TrainingStep(
        model=model, loss=loss, optimizer=optimizer, inputs=inputs, steps=100, seed=args.seed
    )

"""A small GPT on text.

    python -m fsdp_mlir.train --nproc 2 python/examples/gpt_wikitext2.py \\
        --epochs 5 --batch_size 32 --vocab_size 5000 --data wikitext2

Without --data it learns from the documentation inside Python itself. The
vocabulary is learned from the training text; perplexity on the validation text
is printed for each epoch, and --sample TEXT lets the trained model go on from
TEXT.
"""

from __future__ import annotations

import argparse
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

from corpus import load_text, sequences, train_tokenizer
from fsdp_mlir import TrainingStep

# Read by `fsdp_mlir.train`: the loss is a cross-entropy per token.
PERPLEXITY = True


class Attention(nn.Module):
    """Causal self-attention over [batch, time, width]."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        q, k, v = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True
        )
        return self.projection(y.transpose(1, 2).reshape(batch, time, width))


class MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.expand = nn.Linear(width, 4 * width)
        self.projection = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.projection(F.gelu(self.expand(x)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = MLP(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """idx: [batch, time] int64 tokens; returns logits [batch, time, vocabulary]."""

    def __init__(
        self,
        vocabulary: int,
        time: int,
        layers: int,
        width: int,
        heads: int,
        dropout: float = 0.0,
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(time, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(self.initialise)
        for name, parameter in self.named_parameters():
            # Each block adds to the residual stream twice.
            if name.endswith("projection.weight"):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers))
        if tied:
            self.head.weight = self.token.weight

    @staticmethod
    def initialise(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        where = torch.arange(idx.shape[1], device=idx.device)
        x = self.dropout(self.token(idx) + self.position(where))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss(model: nn.Module, idx: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(idx).flatten(0, 1), targets.flatten())


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpt_wikitext2.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    flag = parser.add_argument
    flag("--data", help="a text file, a folder with train and valid files, or wikitext2")
    flag("--epochs", type=int, default=5)
    flag("--batch_size", type=int, default=32, help="sequences on one rank")
    flag("--vocab_size", type=int, default=5000)
    flag("--seq_len", type=int, default=128, help="tokens in a sequence")
    flag("--layers", type=int, default=4)
    flag("--width", type=int, default=256)
    flag("--heads", type=int, default=8)
    flag("--dropout", type=float, default=0.0)
    flag("--tied", action="store_true", help="one matrix for the embedding and the head")
    flag("--lr", type=float, default=1e-3, help="at the end of the warm-up")
    flag("--warmup", type=float, default=0.1, help="part of the steps, from 0 to 1")
    flag("--weight_decay", type=float, default=0.1)
    flag("--sample", metavar="TEXT", help="after training, print how the model goes on from TEXT")
    flag("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    if args.width % args.heads:
        parser.error(f"--width {args.width} is not a multiple of --heads {args.heads}")
    return args


def warmup_cosine(warmup: int, total: int):
    """A factor by step: linear to 1 over `warmup` steps, then half a cosine to 0.1."""

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        progress = min(1.0, (step - warmup) / max(1, total - warmup))
        return 0.1 + 0.45 * (1.0 + math.cos(math.pi * progress))

    return factor


def training_step(argv: list[str]) -> TrainingStep:
    args = parse(argv)
    train_text, valid_text, description = load_text(args.data)
    print(f"data: {description}")
    tokenizer = train_tokenizer(train_text, args.vocab_size)
    vocabulary = tokenizer.get_vocab_size()
    train = sequences(tokenizer.encode(train_text).ids, args.seq_len)
    valid = sequences(tokenizer.encode(valid_text).ids, args.seq_len)
    count, valid_count = len(train["idx"]), len(valid["idx"])

    # `fsdp_mlir.train` says how many ranks share the samples, as torchrun does.
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    needed = ranks * args.batch_size
    if count < needed:
        sys.exit(
            f"the text has {count} training sequences of {args.seq_len} tokens, fewer than one "
            f"batch of {needed} on {ranks} ranks; give a smaller --batch_size or --seq_len, or "
            "more text"
        )
    if valid_count < needed:
        print(
            f"no validation: {valid_count} sequences do not fill a batch of {needed} on {ranks} "
            "ranks"
        )
    steps = args.epochs * (count // ranks // args.batch_size)

    torch.manual_seed(args.seed)
    model = build(args, vocabulary)
    parameters = sum(p.numel() for p in model.parameters())
    print(
        f"{count} sequences of {args.seq_len} tokens to train on, {valid_count} to validate, "
        f"a vocabulary of {vocabulary}; {parameters / 1e6:.1f} million parameters"
    )
    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=torch.optim.AdamW(
            model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=args.weight_decay
        ),
        inputs={name: tensor[: args.batch_size] for name, tensor in train.items()},
        data=train,
        lr_schedule=warmup_cosine(max(1, round(args.warmup * steps)), steps),
        epochs=args.epochs,
        eval_data=valid if valid_count >= needed else None,
        seed=args.seed,
    )


def build(args: argparse.Namespace, vocabulary: int) -> GPT:
    return GPT(
        vocabulary, args.seq_len, args.layers, args.width, args.heads, args.dropout, args.tied
    )


def after_training(argv: list[str], weights: dict[str, torch.Tensor]) -> None:
    """Called by `fsdp_mlir.train` with the trained `state_dict()`."""
    args = parse(argv)
    if args.sample is None:
        return
    tokenizer = train_tokenizer(load_text(args.data)[0], args.vocab_size)
    model = build(args, tokenizer.get_vocab_size())
    model.load_state_dict(weights)
    print(f"\nsample: {sample(model.eval(), tokenizer, args.sample, args.seq_len, args.seed)}")


@torch.no_grad()
def sample(
    model: GPT, tokenizer, text: str, time: int, seed: int, count: int = 100, top: int = 40
) -> str:
    """`text` and `count` more tokens, each drawn from the `top` most likely."""
    generator = torch.Generator().manual_seed(seed)
    tokens = tokenizer.encode(text).ids or [0]
    for _ in range(count):
        logits = model(torch.tensor([tokens[-time:]]))[0, -1]
        values, choices = (logits / 0.8).topk(min(top, len(logits)))
        drawn = torch.multinomial(values.softmax(0), 1, generator=generator)
        tokens.append(int(choices[drawn]))
    return tokenizer.decode(tokens)

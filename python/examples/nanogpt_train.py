"""nanoGPT's train.py in fewer words: its settings, get_batch, schedule, evaluation and loop, whose
steps are a plan's. It is a step file too. docs/tutorials/nanogpt.md has the commands, and counts what
changes.

DATASET is a folder with `train.bin` and `val.bin`, tokens as uint16 as nanoGPT's prepare.py writes.
"""

from __future__ import annotations

import argparse
import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

import fsdp_mlir
import gpt_wikitext2

# nanoGPT's names; sizes of its README's command for a CPU
SETTINGS = {
    "out_dir": "out",
    "eval_interval": 250,
    "log_interval": 1,
    "eval_iters": 20,
    "dataset": "data/shakespeare_char",
    "gradient_accumulation_steps": 1,
    "batch_size": 12,
    "block_size": 64,
    "vocab_size": 65,
    "n_layer": 4,
    "n_head": 4,
    "n_embd": 128,
    "dropout": 0.0,
    "learning_rate": 1e-3,
    "max_iters": 2000,
    "weight_decay": 0.1,
    "beta1": 0.9,
    "beta2": 0.99,
    "grad_clip": 1.0,
    "warmup_iters": 100,
    "lr_decay_iters": 2000,
    "min_lr": 1e-4,
}


class GPT(gpt_wikitext2.GPT):
    """As nanoGPT's: with targets it gives logits and loss. Embedding and head are one matrix."""

    def __init__(self, args: argparse.Namespace) -> None:
        sizes = (args.vocab_size, args.block_size, args.n_layer, args.n_embd, args.n_head)
        super().__init__(*sizes, dropout=args.dropout, tied=True)

    def forward(self, idx: torch.Tensor, targets: torch.Tensor):
        logits = super().forward(idx)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def configure_optimizers(self, args: argparse.Namespace) -> torch.optim.AdamW:
        """Weight decay is of matrices and embeddings alone."""
        parameters = list(self.parameters())
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": args.weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=args.learning_rate, betas=(args.beta1, args.beta2))


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nanogpt_train.py", description="nanoGPT's train.py.")
    for name, value in SETTINGS.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    return parser.parse_args(argv)


def get_batch(args: argparse.Namespace, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens at random places and those behind them: two tensors [batch, block] int64."""
    path, size = os.path.join(args.dataset, f"{split}.bin"), args.block_size
    data = np.memmap(path, dtype=np.uint16, mode="r")
    ix = torch.randint(len(data) - size, (args.batch_size,))
    X = torch.stack([torch.from_numpy(data[i : i + size].astype(np.int64)) for i in ix])
    Y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + size].astype(np.int64)) for i in ix])
    return X, Y


def get_lr(args: argparse.Namespace, it: int) -> float:
    """Linear warm-up, half a cosine down to min_lr, and then that."""
    if it < args.warmup_iters:
        return args.learning_rate * (it + 1) / (args.warmup_iters + 1)
    if it > args.lr_decay_iters:
        return args.min_lr
    progress = (it - args.warmup_iters) / (args.lr_decay_iters - args.warmup_iters)
    share = 0.5 * (1.0 + math.cos(math.pi * progress))
    return args.min_lr + share * (args.learning_rate - args.min_lr)


def training_step(argv: list[str]) -> fsdp_mlir.TrainingStep:
    """The step file: the driver has the loop, evaluates nothing and writes metrics."""
    args = parse(argv)
    torch.manual_seed(1337 + int(os.environ.get("RANK", "0")))
    model = GPT(args)
    empty = torch.zeros(args.batch_size, args.block_size, dtype=torch.long)
    return fsdp_mlir.TrainingStep(
        model,
        loss=lambda model, X, Y: model(X, Y)[1],
        optimizer=model.configure_optimizers(args),
        inputs={"X": empty, "Y": empty},
        data=lambda: get_batch(args, "train"),
        lr_schedule=lambda iter_num: get_lr(args, iter_num) / args.learning_rate,
        steps=args.max_iters + 1,
        accumulate=args.gradient_accumulation_steps // int(os.environ.get("WORLD_SIZE", "1")),
        clip_grad_norm=args.grad_clip or None,
    )


def main(argv: list[str]) -> None:
    args = parse(argv)
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    master_process = rank == 0
    assert args.gradient_accumulation_steps % world_size == 0
    gradient_accumulation_steps = args.gradient_accumulation_steps // world_size
    os.makedirs(args.out_dir, exist_ok=True)
    torch.manual_seed(1337 + rank)
    model = GPT(args)
    optimizer = model.configure_optimizers(args)
    X, Y = get_batch(args, "train")
    run = fsdp_mlir.compile(
        fsdp_mlir.TrainingStep(
            model,
            loss=lambda model, X, Y: model(X, Y)[1],
            optimizer=optimizer,
            inputs={"X": X, "Y": Y},
            eval_data={"X": X, "Y": Y},
            accumulate=gradient_accumulation_steps,
            clip_grad_norm=args.grad_clip or None,
        )
    )

    def estimate_loss(X: torch.Tensor, Y: torch.Tensor) -> dict[str, float]:
        out = {}
        for split in ("train", "val"):
            losses = torch.zeros(args.eval_iters)
            for k in range(args.eval_iters):
                # All ranks take part, since each has a part of the model; rank 0's batch counts.
                if master_process:
                    X, Y = get_batch(args, split)
                losses[k] = run.eval({"X": X, "Y": Y})["loss"]
            out[split] = losses.mean().item()
        return out

    for iter_num in range(args.max_iters + 1):
        run.lr = get_lr(args, iter_num)
        if iter_num % args.eval_interval == 0:
            losses = estimate_loss(X, Y)
            if master_process:
                print(f"step {iter_num}: train loss {losses['train']}, val loss {losses['val']}")
            run.save(os.path.join(args.out_dir, "ckpt.safetensors"))
        batches = []
        for micro_step in range(gradient_accumulation_steps):
            batches.append({"X": X, "Y": Y})
            X, Y = get_batch(args, "train")
        loss = run(batches)
        if iter_num % args.log_interval == 0 and master_process:
            print(f"iter {iter_num}: loss {loss.item()}")


if __name__ == "__main__":
    main(sys.argv[1:])

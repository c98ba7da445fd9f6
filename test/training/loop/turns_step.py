"""A GAN: a step of two turns, and PyTorch's own loop over them."""

from __future__ import annotations

import argparse
from typing import Any, Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

from fsdp_mlir import TrainingStep

BATCH, LATENT, SIZE, SEED = 4, 5, 12, 7
Batch = dict[str, torch.Tensor]


class GAN(nn.Module):
    """BatchNorm in both halves, whose statistics each turn updates; dropout in one."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.Linear(LATENT, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, SIZE), nn.Tanh()
        )
        self.discriminator = nn.Sequential(
            nn.Linear(SIZE, 9),
            nn.BatchNorm1d(9),
            nn.LeakyReLU(0.2),
            nn.Dropout(0.3),
            nn.Linear(9, 1),
        )


def judged(model: nn.Module, x: torch.Tensor, real: float) -> torch.Tensor:
    score = model.discriminator(x).squeeze(1)
    return F.binary_cross_entropy_with_logits(score, torch.full_like(score, real))


def discriminator_loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """By the way of `detach`, with noise of its own."""
    fake = model.generator(torch.randn(len(x), LATENT))
    return judged(model, x, 1.0) + judged(model, fake.detach(), 0.0)


def generator_loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return judged(model, model.generator(torch.randn(len(x), LATENT)), 1.0)


LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "discriminator": discriminator_loss,
    "generator": generator_loss,
}


def fresh() -> tuple[GAN, dict[str, torch.optim.Optimizer]]:
    torch.manual_seed(0)
    model = GAN()
    return model, {
        "discriminator": torch.optim.SGD(model.discriminator.parameters(), 0.1, momentum=0.9),
        "generator": torch.optim.AdamW(model.generator.parameters(), 0.02, betas=(0.5, 0.99)),
    }


def samples(count: int, seed: int = 0) -> Batch:
    return {"x": torch.randn(count, SIZE, generator=torch.Generator().manual_seed(seed))}


def batches(count: int, rank: int = 0) -> list[Batch]:
    return [samples(BATCH, seed=100 * rank + number) for number in range(count)]


def scale(model: nn.Module, x: torch.Tensor) -> Batch:
    return {"scale": model.discriminator[4].weight.norm()}


def eager(
    steps: Sequence[Batch], model: nn.Module, optimizers: dict[str, Any], clip: float = 0.0
) -> list[dict[str, float]]:
    """The losses of each turn, by step; the model is trained in place."""
    rows = []
    for batch in steps:
        row = {"scale.discriminator": scale(model, **batch)["scale"].item()}
        for turn, loss in LOSSES.items():
            for optimizer in optimizers.values():
                optimizer.zero_grad()
            value = loss(model, **batch)
            value.backward()
            if clip:
                own = [p for group in optimizers[turn].param_groups for p in group["params"]]
                row[f"grad_norm.{turn}"] = nn.utils.clip_grad_norm_(own, clip).item()
            optimizers[turn].step()
            row[f"loss.{turn}"] = value.item()
        rows.append(row)
    return rows


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clip", type=float)
    parser.add_argument("--data", action="store_true")
    parser.add_argument("--loader", action="store_true")
    args = parser.parse_args(argv)
    model, optimizers = fresh()
    return TrainingStep(
        model=model,
        loss=LOSSES,
        optimizer=optimizers,
        inputs=samples(BATCH),
        data=samples(7 * BATCH) if args.data else batches(99) if args.loader else None,
        eval_data=samples(2 * BATCH),
        metrics={"discriminator": scale},
        clip_grad_norm=args.clip,
        seed=SEED,
    )

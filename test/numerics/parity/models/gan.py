"""A small GAN of convolutions, whose two networks train in turn."""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn import functional as F

from fsdp_mlir import TrainingStep

BATCH, LATENT = 4, 5


class GAN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(LATENT, 6, 4, bias=False),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.ConvTranspose2d(6, 3, 4, 2, 1, bias=False),
            nn.Tanh(),
        )
        self.discriminator = nn.Sequential(
            nn.Conv2d(3, 7, 4, 2, 1),
            nn.BatchNorm2d(7),
            nn.LeakyReLU(0.2),
            nn.Dropout(0.2),
            nn.Conv2d(7, 1, 4),
        )


def judged(model: nn.Module, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(model.discriminator(x).flatten(), real)


def generated(model: nn.Module, count: int) -> torch.Tensor:
    return model.generator(torch.randn(count, LATENT, 1, 1))


def discriminator_loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    both = torch.cat([x, generated(model, len(x)).detach()])
    return judged(model, both, torch.cat([torch.ones(len(x)), torch.zeros(len(x))]))


def generator_loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return judged(model, generated(model, len(x)), torch.ones(len(x)))


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-norm", type=float)
    flags = parser.parse_args(argv)
    x = torch.randn(44, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(0)
    model = GAN()
    return TrainingStep(
        model=model,
        loss={"discriminator": discriminator_loss, "generator": generator_loss},
        optimizer={
            "discriminator": torch.optim.SGD(model.discriminator.parameters(), 0.1, momentum=0.9),
            "generator": torch.optim.Adam(model.generator.parameters(), 0.01, betas=(0.5, 0.99)),
        },
        inputs={"x": x[:BATCH]},
        data={"x": x},
        clip_grad_norm=flags.max_norm,
        seed=3,
    )

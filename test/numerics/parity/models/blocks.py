"""A stack of blocks whose sizes no number of ranks divides; each flag asks for one feature."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from fsdp_mlir import TrainingStep

WIDTH, HIDDEN, CLASSES = 9, 15, 7
BATCH, SAMPLES = 4, 61


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, HIDDEN)
        self.down = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Blocks(nn.Module):
    def __init__(self, checkpoints: bool = False):
        super().__init__()
        self.checkpoints = checkpoints
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
        return self.head(x)


def freeze(model: Blocks) -> None:
    """A whole block, and weights beside biases that are trained."""
    model.blocks[1].requires_grad_(False)
    model.blocks[2].up.weight.requires_grad_(False)
    model.first.weight.requires_grad_(False)


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--clip-norm", type=float)
    parser.add_argument("--norm-type", type=float, default=2.0)
    parser.add_argument("--clip-value", type=float)
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--scale", type=float, help="the loss's first, of a scaler")
    parser.add_argument("--loss-factor", type=float, default=1.0)
    flags = parser.parse_args(argv)

    generator = torch.Generator().manual_seed(7)
    x = torch.randn(SAMPLES, WIDTH, generator=generator)
    y = torch.randint(CLASSES, (SAMPLES,), generator=generator)
    torch.manual_seed(0)
    model = Blocks(flags.checkpoint)
    if flags.frozen:
        freeze(model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return flags.loss_factor * F.cross_entropy(model(x), y)

    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=torch.optim.AdamW(trained, lr=1e-2),
        inputs={"x": x[:BATCH], "y": y[:BATCH]},
        data={"x": x, "y": y},
        seed=3,
        accumulate=flags.accumulate,
        clip_grad_norm=flags.clip_norm and (flags.clip_norm, flags.norm_type),
        clip_grad_value=flags.clip_value,
        scaler=flags.scale
        and torch.amp.GradScaler("cpu", init_scale=flags.scale, growth_interval=2),
    )

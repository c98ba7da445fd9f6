"""Four small models that stand for what layouts and schedules have to cope with:
blocks that repeat, sizes that do not divide, buffers, random numbers, tied and
frozen weights. One of them leaves its gradients in its weights. With --synced a step has collectives of
its own, on a mesh of 2 x 2 ranks."""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.distributed.nn
from torch import distributed, nn
from torch.nn import functional as F

from fsdp_mlir import TrainingStep, fully_shard, init_device_mesh

SAMPLES = 24


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (
            y.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for y in self.qkv(self.ln1(x)).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + F.dropout(self.down(F.gelu(self.up(self.ln2(x)))), 0.1)


class GPT(nn.Module):
    """`tied`: the head is the embedding, and the positions do not train."""

    def __init__(self, width: int, tied: bool):
        super().__init__()
        self.tokens = nn.Embedding(23, width)
        self.positions = nn.Embedding(6, width)
        self.blocks = nn.ModuleList(Block(width, 2) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 23, bias=False)
        if tied:
            self.head.weight = self.tokens.weight
            self.positions.weight.requires_grad = False
            self.blocks[1].up.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tokens(x) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class FromZero(nn.Linear):
    """Trains the difference to a fixed weight. After one step of SGD with a rate of
    1/8 its parameters are -1/8 of their gradients, bit for bit."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        self.register_buffer("base", self.weight.detach().clone())
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.base + self.weight, self.bias)


class Residual(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.bn2(self.conv2(y)))


def gpt(tied: bool) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    tokens = torch.randint(23, (SAMPLES, 7))
    return GPT(12, tied), tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def mlp() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    layers = [FromZero(3, 5), nn.GELU(), FromZero(5, 7), nn.GELU(), FromZero(7, 17)]
    return nn.Sequential(*layers), torch.randn(SAMPLES, 3), torch.randint(17, (SAMPLES,))


def resnet() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    stem = [nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), Residual(5), Residual(5)]
    model = nn.Sequential(*stem, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 7))
    return model, torch.randn(SAMPLES, 3, 8, 8), torch.randint(7, (SAMPLES,))


MODELS = {"gpt": lambda: gpt(False), "mlp": mlp, "resnet": resnet, "tied": lambda: gpt(True)}


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--accumulate", type=int, help="micro-batches (resnet: 2, else 1)")
    parser.add_argument("--clip-norm", type=float, nargs=2, metavar=("MOST", "TYPE"))
    parser.add_argument("--scaler", action="store_true", help="scale the loss")
    parser.add_argument("--muon", action="store_true", help="for the matrices of gpt")
    parser.add_argument("--adafactor", action="store_true")
    parser.add_argument("--synced", action="store_true", help="sums of the step's own over ranks")
    flags = parser.parse_args(argv)
    torch.manual_seed(3)
    model, x, y = MODELS[flags.model]()
    if flags.synced:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        fully_shard(model, mesh=mesh)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x).flatten(0, -2), y.flatten())

    def synced(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits = model(x).flatten(0, -2)
        mean = distributed.nn.all_reduce(logits.mean(0)) / distributed.get_world_size()
        spread = (logits - mean).square().mean() * (1 + distributed.get_rank())
        return F.cross_entropy(logits, y.flatten()) + spread

    # A rule for what decays and one for what does not.
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    if flags.adafactor:
        optimizer: Any = torch.optim.Adafactor(trained)
    elif flags.model == "resnet":
        optimizer = torch.optim.SGD(groups, lr=0.05, momentum=0.9)
    elif flags.model == "mlp":
        optimizer = torch.optim.SGD(trained, lr=0.125)
    elif flags.muon:
        matrices, others = (group["params"] for group in groups)
        optimizer = [torch.optim.Muon(matrices, lr=1e-2), torch.optim.AdamW(others, lr=1e-2)]
    else:
        optimizer = torch.optim.AdamW(groups, lr=1e-2)
    return TrainingStep(
        model=model,
        loss=synced if flags.synced else loss,
        optimizer=optimizer,
        inputs={"x": x[:2].clone(), "y": y[:2].clone()},
        data={"x": x, "y": y},
        seed=1,
        # Buffers change in each micro-batch.
        accumulate=flags.accumulate or (2 if flags.model == "resnet" else 1),
        clip_grad_norm=flags.clip_norm and tuple(flags.clip_norm),
        scaler=torch.amp.GradScaler("cpu") if flags.scaler else None,
    )

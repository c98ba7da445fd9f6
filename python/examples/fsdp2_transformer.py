"""A script written for FSDP2, with one import changed.

    python -m fsdp_mlir.train --nproc 2 python/examples/fsdp2_transformer.py

A small Transformer learns to say its input backwards. `shard` is as one writes it for
`torch.distributed.fsdp`: each layer is a unit, and the model takes what is left. What FSDP2 can do
beside that is a flag each, and they combine:

    python -m fsdp_mlir.train --nproc 4 python/examples/fsdp2_transformer.py \
        --replicas 2 --mixed-precision --accumulate 2 --max-norm 1 --offload

With --plain the model has no policy of its own; the compiler is then told the same by
`--pipeline units=class:Layer`.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn

# from torch.distributed.device_mesh import init_device_mesh
# from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from fsdp_mlir import CPUOffloadPolicy, MixedPrecisionPolicy, TrainingStep
from fsdp_mlir import fully_shard, init_device_mesh

VOCABULARY = 32


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = self.qkv(self.attention_norm(x)).chunk(3, dim=-1)
        split = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in qkv)
        attended = F.scaled_dot_product_attention(*split)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class Transformer(nn.Module):
    def __init__(
        self, width: int, heads: int, layers: int, time: int, vocabulary: int = VOCABULARY
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(0.02 * torch.randn(time, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens: [batch, time]; returns logits [batch, time, vocabulary]."""
        x = self.token(tokens) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def shard(model: Transformer, args: argparse.Namespace, ranks: int) -> None:
    policy = {}
    if args.replicas > 1:
        if ranks % args.replicas:
            raise SystemExit(f"--replicas {args.replicas} does not divide {ranks} ranks")
        shape, names = (args.replicas, ranks // args.replicas), ("replicate", "shard")
        policy["mesh"] = init_device_mesh("cpu", shape, mesh_dim_names=names)
    else:
        policy["mesh"] = init_device_mesh("cpu", (ranks,))
    if args.mixed_precision:
        policy["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    if args.offload:
        policy["offload_policy"] = CPUOffloadPolicy()
    for layer in model.layers:
        fully_shard(layer, **policy)
    fully_shard(model, **policy)


def loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(tokens).float().flatten(0, 1), tokens.flip(1).flatten())


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser(prog="fsdp2_transformer.py")
    parser.add_argument("--plain", action="store_true", help="leave the units to the compiler")
    parser.add_argument("--replicas", type=int, default=1, help="of the shards (HSDP)")
    parser.add_argument("--mixed-precision", action="store_true", help="bf16, reduced in fp32")
    parser.add_argument("--offload", action="store_true", help="state in host memory")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches in a step")
    parser.add_argument("--max-norm", type=float, help="what gradients are clipped to")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--seq_len", type=int, default=16)
    parser.add_argument("--batch_size", type=int, default=16, help="on one rank")
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    model = Transformer(args.width, args.heads, args.layers, args.seq_len)
    if not args.plain:
        # `fsdp_mlir.train` says how many ranks there are, as torchrun does.
        shard(model, args, int(os.environ.get("WORLD_SIZE", "1")))
    data = {"tokens": torch.randint(VOCABULARY, (1024, args.seq_len))}
    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        inputs={"tokens": data["tokens"][: args.batch_size]},
        data=data,
        steps=args.steps,
        accumulate=args.accumulate,
        clip_grad_norm=args.max_norm,
    )

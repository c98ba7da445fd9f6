"""A mixture of experts whose tokens are sorted by expert, so that one grouped product takes all of
them: what Hugging Face's models and torchtitan do."""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn import functional as F

from fsdp_mlir import MixedPrecisionPolicy, TrainingStep, fully_shard

EXPERTS, CHOSEN, WIDTH, LABELS, BATCH, SAMPLES = 4, 2, 32, 8, 64, 256


class Experts(nn.Module):
    """x: [tokens, width]; each token is given to its `CHOSEN` experts, and their results are added,
    weighed by the router."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * WIDTH) * 0.1)
        self.down = nn.Parameter(torch.randn(EXPERTS, 2 * WIDTH, WIDTH) * 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, experts = self.router(x).float().softmax(-1).topk(CHOSEN)
        order = experts.flatten().argsort(stable=True)
        counts = torch.histc(experts.flatten().float(), bins=EXPERTS, min=0, max=EXPERTS - 1)
        ends = counts.cumsum(0).to(torch.int32)
        tokens = order // CHOSEN
        y = F.silu(F.grouped_mm(x[tokens], self.up, offs=ends))
        y = F.grouped_mm(y, self.down, offs=ends)
        y = y * weights.flatten()[order, None].to(y.dtype)
        return torch.zeros_like(x).index_add(0, tokens, y)


class Model(nn.Module):
    """x: [batch, width]; returns logits [batch, labels]."""

    def __init__(self) -> None:
        super().__init__()
        self.experts, self.head = Experts(), nn.Linear(WIDTH, LABELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x + self.experts(x))


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bf16", action="store_true", help="parameters as the ranks compute")
    args = parser.parse_args(argv)
    torch.manual_seed(0)
    model = Model()
    if args.bf16:
        fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    x = torch.randn(SAMPLES, WIDTH)
    y = (x[:, :LABELS].cumsum(1)).argmax(1)
    return TrainingStep(
        model=model,
        loss=lambda model, x, y: F.cross_entropy(model(x).float(), y),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        inputs={"x": x[:BATCH], "y": y[:BATCH]},
        data={"x": x, "y": y},
        steps=20,
    )

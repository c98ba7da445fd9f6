"""A model that names its units itself: with casts, prefetch lists and bounded gradients, for the
claims of remarks that test/compiler/options/step.py provokes none of."""

from __future__ import annotations

import torch
from torch import nn

from fsdp_mlir import MixedPrecisionPolicy, TrainingStep, fully_shard

WIDTH, LAYERS = 8, 3


def training_step(argv: list[str]) -> TrainingStep:
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model[0].set_modules_to_forward_prefetch([model[1], model[2]])
    model[2].set_modules_to_backward_prefetch([model[1]])
    data = {"x": torch.randn(16, WIDTH)}
    return TrainingStep(
        model=model,
        loss=lambda model, x: model(x).float().pow(2).mean(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        inputs={"x": data["x"][:4].clone()},
        data=data,
        clip_grad_value=0.5,
    )

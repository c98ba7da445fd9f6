"""A step whose model says how it is sharded."""

import torch
from torch import nn

from fsdp_mlir import TrainingStep, fully_shard, init_device_mesh


def training_step(argv):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    mesh = init_device_mesh("cpu", (2,))
    fully_shard(model[2], mesh=mesh, reshard_after_forward=False)
    fully_shard([model[0], model[1]], mesh=mesh)
    fully_shard(model, mesh=mesh, ignored_params={model[3].bias})
    model[2].set_gradient_divide_factor(3)
    model.set_modules_to_forward_prefetch([model[2], model[0]])
    model[3].bias.requires_grad_(False)
    return TrainingStep(
        model,
        lambda model, x: model(x).square().mean(),
        torch.optim.SGD(model.parameters(), lr=0.1),
        inputs={"x": torch.randn(3, 4)},
        steps=1,
    )

import torch
from torch import nn

from fsdp_mlir import TrainingStep


def loss(model, x, y):
    return nn.functional.mse_loss(model(x), y)


def training_step(argv):
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2, bias=False))
    with torch.no_grad():
        nn.init.normal_(model[2].weight, std=0.5)
        model[2].weight[1].zero_()
    inputs = {"x": torch.randn(3, 4), "y": torch.randn(3, 2)}
    return TrainingStep(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), inputs, steps=2)

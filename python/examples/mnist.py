"""The MNIST script of pytorch/examples as a step file: its network, optimizer, schedule and data.

    python -m fsdp_mlir.train --nproc 2 python/examples/mnist.py --epochs 3

docs/tutorials/mnist.md has the script beside it.
"""

import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets, transforms

from fsdp_mlir import TrainingStep


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = torch.flatten(self.dropout1(x), 1)
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(self.dropout2(x)), dim=1)


def parse(argv):
    parser = argparse.ArgumentParser(prog="mnist.py", description="PyTorch MNIST Example")
    parser.add_argument("--batch-size", type=int, default=64, help="on one rank")
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", default="data", help="folder that MNIST is in, or is put into")
    return parser.parse_args(argv)


def loader(args, train):
    """This rank's share of the samples."""
    transform = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]
    )
    dataset = datasets.MNIST(args.data, train=train, download=True, transform=transform)
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    sampler = DistributedSampler(
        dataset, ranks, rank, shuffle=train, seed=args.seed, drop_last=True
    )
    return DataLoader(dataset, args.batch_size, sampler=sampler, drop_last=True, num_workers=1)


def training_data(argv):
    return loader(parse(argv), train=True)


def evaluation_data(argv):
    return loader(parse(argv), train=False)


def training_step(argv):
    args = parse(argv)
    torch.manual_seed(args.seed)
    model = Net()
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    data = training_data(argv)
    return TrainingStep(
        model=model,
        loss=lambda model, data, target: F.nll_loss(model(data), target),
        metrics=lambda model, data, target: {
            "accuracy": (model(data).argmax(1) == target).float().mean()
        },
        optimizer=optimizer,
        lr_schedule=StepLR(optimizer, step_size=1, gamma=args.gamma),
        lr_schedule_every="epoch",
        inputs={
            "data": torch.zeros(args.batch_size, 1, 28, 28),
            "target": torch.zeros(args.batch_size, dtype=torch.long),
        },
        data=data,
        eval_data=evaluation_data(argv),
        epochs=args.epochs,
        seed=args.seed,
    )

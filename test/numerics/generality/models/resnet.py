"""torchvision's ResNet with one block a stage: convolutions and BatchNorm."""

import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

from fsdp_mlir import TrainingStep


def training_step(argv: list[str]) -> TrainingStep:
    torch.manual_seed(0)
    model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=7)
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(41, 3, 32, 32, generator=generator)
    labels = torch.randint(7, (41,), generator=generator)

    def loss(model: nn.Module, images: torch.Tensor, labels: torch.Tensor):
        return nn.functional.cross_entropy(model(images), labels)

    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4),
        inputs={"images": images[:2].clone(), "labels": labels[:2].clone()},
        data={"images": images, "labels": labels},
        seed=4,
    )

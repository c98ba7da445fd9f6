"""ResNet-18 on pictures that two workers crop, flip and convert."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet18

from fsdp_mlir import TrainingStep

BATCH, WORKERS, CLASSES, SIZE, EDGE = 16, 2, 10, 32, 4
SAMPLES = 4096


class Pictures(Dataset):
    """Bytes with an edge around them, as a folder of decoded pictures would give."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        shape = (SAMPLES, 3, SIZE + 2 * EDGE, SIZE + 2 * EDGE)
        self.pictures = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
        self.labels = torch.randint(CLASSES, (SAMPLES,), generator=generator)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        top, left = torch.randint(2 * EDGE + 1, (2,)).tolist()
        picture = self.pictures[index, :, top : top + SIZE, left : left + SIZE]
        if torch.rand(()) < 0.5:
            picture = picture.flip(-1)
        return {"x": (picture.float() / 255 - 0.5) / 0.25, "y": self.labels[index]}


def training_data(argv: list[str]) -> DataLoader:
    return DataLoader(Pictures(), BATCH, shuffle=True, drop_last=True, num_workers=WORKERS)


def training_step(argv: list[str]) -> TrainingStep:
    torch.manual_seed(0)
    model = resnet18(num_classes=CLASSES)
    return TrainingStep(
        model=model,
        loss=lambda model, x, y: nn.functional.cross_entropy(model(x), y),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        inputs={"x": torch.zeros(BATCH, 3, SIZE, SIZE), "y": torch.zeros(BATCH, dtype=torch.long)},
        data=training_data(argv),
        steps=100,
    )

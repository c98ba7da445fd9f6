"""How scripts hold their states and change them: memory formats, teachers, sparse tables."""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F

from entry import Entry, Tensor, classes, numbers, of_logits, of_tokens, together

WIDTH, LABELS, WORDS = 16, 5, 20
SIGNALS = together(x=numbers(WIDTH))
WORDS_BATCH = together(x=classes(WORDS, 6), y=classes(WORDS, 6))
PICTURES = together(x=numbers(3, 64, 64), y=classes(LABELS))


def _layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


class _Flow(nn.Module):
    """A step of Glow: its matrix is orthogonal at first, and transposed in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.linalg.qr(torch.randn(WIDTH, WIDTH))[0])
        self.scale = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        volume = self.scale.sum() + torch.slogdet(self.mix)[1]
        z = F.linear(x * self.scale.exp(), self.mix)
        return -(torch.distributions.Normal(0, 1).log_prob(z).sum(-1) + volume).mean()


class _Teacher(nn.Module):
    """Keys of a frozen copy that follows in the forward, as in the code of MoCo and BYOL."""

    def __init__(self, follow: Callable[[nn.Parameter, nn.Parameter], Any]) -> None:
        super().__init__()
        self.query = _layers()
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.follow = follow

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            for pair in zip(self.key.parameters(), self.query.parameters()):
                self.follow(*pair)
            wanted = self.key(x.flip(-1))
        return F.mse_loss(self.query(x), wanted)


def _set_data(key: nn.Parameter, query: nn.Parameter) -> None:
    key.data = key.data * 0.9 + query.data * 0.1


class _Bag(nn.Module):
    """Sums of rows of a sparse table, as in DLRM."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(WORDS, WIDTH, mode="sum", sparse=True)
        self.head = nn.Linear(WIDTH, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.table(x))


def _channels_last() -> nn.Module:
    from torchvision.models.resnet import BasicBlock, ResNet

    model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=LABELS)
    return model.to(memory_format=torch.channels_last)


def _of_channels_last(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x.to(memory_format=torch.channels_last)), y)


def _over_positives(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """As detectors divide: by how many there are, or by one."""
    many = (y > 0).sum().item()
    return F.cross_entropy(model(x), y, reduction="sum") / max(1, many)


def _alone(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


MODELS: dict[str, Callable[[], Entry]] = {
    "channels-last": lambda: Entry(_channels_last(), PICTURES, _of_channels_last),
    "glow": lambda: Entry(_Flow(), SIGNALS, _alone),
    "teacher-data-set": lambda: Entry(_Teacher(_set_data), SIGNALS, _alone),
    "teacher-lerp": lambda: Entry(
        _Teacher(lambda key, query: key.lerp_(query, 0.1)), SIGNALS, _alone
    ),
    "sparse-embedding": lambda: Entry(
        nn.Sequential(nn.Embedding(WORDS, WIDTH, sparse=True), nn.Linear(WIDTH, WORDS)),
        *(WORDS_BATCH, of_tokens),
    ),
    "sparse-bag": lambda: Entry(
        _Bag(), together(x=classes(WORDS, 6), y=classes(LABELS)), of_logits
    ),
    "count-as-number": lambda: Entry(
        _layers(), together(x=numbers(WIDTH), y=classes(2)), _over_positives
    ),
}

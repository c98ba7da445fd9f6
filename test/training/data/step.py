"""A small language model; `training_step(argv)` reads what `argv` names: the kind and the file."""

from __future__ import annotations


import numpy as np
import torch

from fsdp_mlir import Shards, TrainingStep, Windows

BATCH, LENGTH, VOCABULARY = 4, 8, 32
TOKENS = 2 * 30 * LENGTH + 5


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, 16)
        self.hidden = torch.nn.Linear(16, 16)
        self.head = torch.nn.Linear(16, VOCABULARY)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.hidden(self.embedding(x))))


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return Model()


def loss(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def tokens() -> np.ndarray:
    return np.random.default_rng(0).integers(0, VOCABULARY, TOKENS).astype(np.uint16)


def windows(file, **options) -> Windows:
    return Windows(file, columns={"x": 0, "y": 1}, length=LENGTH, **options)


def batches_of(data: Windows) -> dict[str, torch.Tensor]:
    """All windows as tensors."""
    rows = [data[i] for i in range(len(data))]
    return {name: torch.stack([row[name] for row in rows]).long() for name in ("x", "y")}


def data_of(kind: str, path: str):
    if kind == "tensors":
        return batches_of(windows(path, dtype="uint16"))
    if kind == "windows":
        return windows(path, dtype="uint16")
    if kind == "blocks":
        return windows(path, dtype="uint16", order="blocks", block=7)
    if kind == "random":
        return windows(path, dtype="uint16", order="random", stride=1)
    if kind == "memmap":
        return windows(np.memmap(path, dtype=np.uint16, mode="r"))
    if kind == "shards":
        return Shards(path)
    raise AssertionError(kind)


def training_step(argv: list[str]) -> TrainingStep:
    net = model()
    example = torch.zeros(BATCH, LENGTH, dtype=torch.long)
    return TrainingStep(
        model=net,
        loss=loss,
        optimizer=torch.optim.AdamW(net.parameters(), lr=0.01),
        inputs={"x": example, "y": example},
        data=data_of(*argv),
        steps=6,
        seed=3,
    )

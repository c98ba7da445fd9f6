"""Tests that MoCo, whose queue has a pointer among the buffers, has the bits of eager PyTorch on one
rank and on two."""

from __future__ import annotations

import copy
import pathlib

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fsdp_mlir import TrainingStep
from support import chain, reference

STEPS = 4  # the queue's end is behind the third


class MoCo(nn.Module):
    """As in its authors' code."""

    def __init__(self, by_index: bool, size: int = 12) -> None:
        super().__init__()
        self.query = nn.Linear(8, 5)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.by_index, self.size = by_index, size
        self.register_buffer("queue", F.normalize(torch.randn(5, size), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def enqueue(self, keys: Tensor) -> None:
        count = keys.shape[0]
        if self.by_index:
            places = (self.queue_ptr + torch.arange(count)) % self.size
            self.queue.index_copy_(1, places, keys.T)
            self.queue_ptr.copy_((self.queue_ptr + count) % self.size)
            return
        ptr = int(self.queue_ptr)
        assert self.size % count == 0
        self.queue[:, ptr : ptr + count] = keys.T
        self.queue_ptr[0] = (ptr + count) % self.size

    def forward(self, x: Tensor) -> Tensor:
        q = F.normalize(self.query(x), dim=1)
        with torch.no_grad():
            k = F.normalize(self.key(x.flip(1)), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone().detach()], 1)
        self.enqueue(k)
        return F.cross_entropy(logits / 0.07, torch.zeros(len(x), dtype=torch.long))


def training_step(by_index: bool) -> TrainingStep:
    torch.manual_seed(1)
    model = MoCo(by_index)
    optimizer = torch.optim.AdamW(model.query.parameters(), lr=0.05)
    x = torch.randn(48, 8)
    return TrainingStep(
        model, lambda model, x: model(x), optimizer, {"x": x[:4]}, data={"x": x}, epochs=1
    )


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("by_index", [False, True])
def test_a_queue_is_eagers(ranks: int, by_index: bool, tmp_path: pathlib.Path) -> None:
    make = lambda argv=(): training_step(by_index)
    trained = reference.averaged(make(), ranks, STEPS)
    plan = chain.compile_step(make, tmp_path, pipeline=f"mesh={ranks}")
    run = chain.run_plan(plan, ranks, steps=STEPS)
    reference.assert_same_bits(run.losses, run.weights, trained)

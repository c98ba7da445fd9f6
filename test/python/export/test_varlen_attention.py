"""Tests of attention over packed sequences: on CPUs, where PyTorch has no kernel, it is held against
attention over each sequence alone."""

from __future__ import annotations

import pathlib

import pytest
import torch
from exporting import export, sgd
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.varlen import AuxRequest, varlen_attn

from fsdp_mlir import TrainingStep

HEADS, WIDTH, TOKENS = 2, 4, 12
ALL, CAUSAL, WINDOW = (-1, -1), (-1, 0), (2, 1)


def alone(q: Tensor, k: Tensor, v: Tensor, window: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """One sequence's result, by tokens, and the logarithms of its sums, by heads."""
    scores = torch.einsum("qhd,khd->hqk", q, k) * WIDTH**-0.5
    distance = torch.arange(len(k)) - (torch.arange(len(q)) + len(k) - len(q))[:, None]
    left, right = window
    for is_out in (left >= 0) & (distance < -left), (right >= 0) & (distance > right):
        scores = scores.masked_fill(is_out, -torch.inf)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v), scores.logsumexp(-1)


class Packed(nn.Module):
    """`x` is samples of packed tokens of which the last are of no sequence, `lengths` how long each is.
    There are `more` keys in some sequences than queries."""

    def __init__(
        self, window: tuple[int, int], asks_for_sums: bool, more: list[int], by_pytorch: bool
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.parts = nn.Linear(3, 3 * HEADS * WIDTH)
        self.window, self.asks_for_sums, self.by_pytorch = window, asks_for_sums, by_pytorch
        self.more = torch.tensor(more)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        q, k, v = self.parts(x.flatten(0, 1)).view(-1, 3, HEADS, WIDTH).unbind(1)
        of_queries = lengths.flatten()
        of_keys = of_queries + self.more
        if self.by_pytorch:
            begins = [F.pad(of.cumsum(0), (1, 0)).to(torch.int32) for of in (of_queries, of_keys)]
            aux = AuxRequest(lse=self.asks_for_sums)
            sizes = TOKENS, TOKENS
            result = varlen_attn(q, k, v, *begins, *sizes, return_aux=aux, window_size=self.window)
            attended, sums = result if self.asks_for_sums else (result, None)
        else:
            packed = (q, of_queries), (k, of_keys), (v, of_keys)
            of_each = (part[: of.sum()].split(of.tolist()) for part, of in packed)
            results = zip(*(alone(*parts, self.window) for parts in zip(*of_each)))
            attended, sums = map(torch.cat, results, (0, 1))
        attended = attended[: TOKENS - 2]
        if self.asks_for_sums:
            attended = attended * sums.T[: TOKENS - 2, :, None]
        return attended.square().mean()


def batch() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, TOKENS // 2, 3, generator=generator)
    return {"x": x, "lengths": torch.tensor([[3, 1], [4, 2]])}


@pytest.mark.parametrize("more", [[0, 0, 0, 0], [0, 1, 0, 1]])
@pytest.mark.parametrize(
    "window, asks_for_sums", [(ALL, False), (CAUSAL, False), (WINDOW, False), (CAUSAL, True)]
)
def test_each_sequence_is_attended_alone(
    window: tuple[int, int], asks_for_sums: bool, more: list[int], tmp_path: pathlib.Path
) -> None:
    of = window, asks_for_sums, more
    model, same = (Packed(*of, by_pytorch) for by_pytorch in (True, False))
    inputs = batch()
    step = TrainingStep(
        model=model,
        loss=lambda model, x, lengths: model(x, lengths),
        optimizer=sgd(model),
        inputs=inputs,
    )
    results = export(step, tmp_path).run()
    loss = same(**inputs)
    loss.backward()
    torch.testing.assert_close(results["loss", ""], loss.detach())
    for name, parameter in same.named_parameters():
        torch.testing.assert_close(results["gradient", name], parameter.grad)

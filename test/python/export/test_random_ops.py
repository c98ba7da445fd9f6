"""Tests that an exported step draws the random numbers that eager PyTorch draws, bit for bit."""

import pathlib

import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, export
from torch import nn


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        q, k, v = self.qkv(x).view(batch, time, 3, 2, 8).permute(2, 0, 3, 1, 4)
        rate = 0.1 if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=rate)
        return self.out(y.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.Dropout(0.2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Tied embeddings, attention with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.positions = nn.Embedding(6, 16)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(16, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.mark.quick
@pytest.mark.parametrize(
    "rate, dtype", [(0.3, torch.float32), (0.15, torch.float32), (0.1, torch.bfloat16)]
)
def test_mlp_with_dropout(rate: float, dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    """1 / (1 - rate) is a number of the tensor's dtype: in all but the first, float64 has another."""
    model = nn.Sequential(nn.Linear(8, 7), nn.ReLU(), nn.Dropout(rate), nn.Linear(7, 3)).to(dtype)
    inputs = {"x": torch.randn(4, 8, dtype=dtype), "y": torch.randint(3, (4,))}
    assert_same_as_eager(classify(model, inputs=inputs), tmp_path)


def test_gpt_with_dropout_in_attention(tmp_path: pathlib.Path) -> None:
    tokens = torch.randint(11, (3, 6))
    step = classify(GPT(), inputs={"x": tokens, "y": tokens})
    exported = assert_same_as_eager(step, tmp_path)
    assert "aten::native_dropout" not in exported.ops()


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_dropout_of_a_transposed_tensor(tmp_path: pathlib.Path, order: tuple[int, ...]) -> None:
    class Transposed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = F.dropout(x.view(4, 5, 8).permute(order), 0.4)
            return y.reshape(-1, 1) * self.scale

    inputs = {"x": torch.randn(4, 40), "y": torch.randint(3, (160,))}
    exported = assert_same_as_eager(classify(Transposed(), inputs=inputs), tmp_path)
    assert "aten::permute" in exported.ops()


def test_random_ops_without_a_generator(tmp_path: pathlib.Path) -> None:
    class Noise(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.rand_like(x) + torch.randn_like(x.t()).t() + torch.randint_like(x, 2, 9)
            y = y * torch.rand(4, 8) - torch.randn(8) + torch.randint(5, (8,)) * x
            return super().forward(y[torch.randperm(4)])

    exported = assert_same_as_eager(classify(Noise(8, 3)), tmp_path)
    random = {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"}
    for node in exported.program()["nodes"]:
        if node["op"].removeprefix("aten::") in random:
            assert "generator" in node["overload"]


def test_a_draw_that_nothing_is_computed_of_is_a_note(tmp_path: pathlib.Path) -> None:
    """As in a last layer whose second result nobody reads: eager mode draws for it."""

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        F.dropout(x, 0.5)
        return F.dropout(model(x), 0.5).mean()

    place = f"test_random_ops.py:{loss.__code__.co_firstlineno + 1}: "
    (said,) = export(classify(nn.Linear(8, 3), loss=loss), tmp_path).notes
    assert said.startswith(f"{place}the step draws random numbers that nothing is computed of")

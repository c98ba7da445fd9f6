"""Tests of operators that take functions: a plan has the plain code that they stand for."""

from __future__ import annotations

import contextlib
import pathlib
from typing import Callable, Iterator

import pytest
import torch
from exporting import assert_same_as_eager, assert_trains_as_eager, classify, export, sgd
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.compiler import nested_compile_region
from torch.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention

from fsdp_mlir import TrainingStep
from fsdp_mlir.capture.context import compiled_code_by_itself
from fsdp_mlir.capture.operators.higher_order import higher_order_by_code

HEADS, PLACES, WIDTH, SAMPLES = 4, 8, 16, 3


class Model(nn.Module):
    def __init__(self, body: Callable[[nn.Linear, nn.Linear, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.first, self.second, x))


def chooses(first: nn.Linear, second: nn.Linear, x: Tensor) -> Tensor:
    h = torch.cond(x.sum() > 0, lambda y: first(y).relu(), lambda y: second(y).sin(), (x,))
    return h + torch.cond(len(x) > 2, first, second, (x,))


@torch.compile(backend="eager")
def gate(x: Tensor) -> Tensor:
    return x * x.sigmoid()


def decides_by_compiled_code(first: nn.Linear, second: nn.Linear, x: Tensor) -> Tensor:
    h = gate(first(x))
    if h.mean().item() > 0.1:
        h = second(h)
    return h


@pytest.mark.parametrize("body", [chooses, decides_by_compiled_code])
def test_both_ways_train(body: Callable[..., Tensor]) -> None:
    assert_trains_as_eager(lambda: Model(body))


def scans(first: nn.Linear, second: nn.Linear, x: Tensor) -> Tensor:
    steps = torch.stack([x, x.sin(), x.cos()])
    last, all_steps = scan(lambda c, s: (torch.tanh(c * s), c + s), first(x), second(steps))
    return last + all_steps.mean(0)


def maps(first: nn.Linear, second: nn.Linear, x: Tensor) -> Tensor:
    return map_over(lambda row, scale: torch.tanh(row * scale), first(x), second(x)[0])


def counts(first: nn.Linear, second: nn.Linear, x: Tensor) -> Tensor:
    with torch.no_grad():  # in which PyTorch has it
        _, x = while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 0.5), (torch.tensor(0), x))
    return first(x)


def associates(first: nn.Linear, second: nn.Linear, x: Tensor) -> Tensor:
    def combine(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return a[0] * b[0], a[1] * b[0] + b[1]

    pairs = first(x).sigmoid(), second(x)
    return associative_scan(combine, pairs, dim=1, combine_mode="generic")[1]


@nested_compile_region
def region(x: Tensor) -> Tensor:
    return x.tanh() * 2


def compiles_regions(first: nn.Linear, second: nn.Linear, x: Tensor) -> Tensor:
    return region(second(region(first(x))))


@pytest.mark.parametrize("body", [associates, counts, compiles_regions])
def test_loops_and_regions_are_their_code(
    body: Callable[..., Tensor], tmp_path: pathlib.Path
) -> None:
    assert_same_as_eager(classify(Model(body)), tmp_path)


@pytest.mark.parametrize("body", [scans, maps])
def test_loops_over_sequences_are_their_code(
    body: Callable[..., Tensor], tmp_path: pathlib.Path
) -> None:
    """Of which PyTorch adds gradients in another order."""
    step = classify(Model(body))
    results = export(step, tmp_path).run()
    step.loss(step.model, **step.inputs).backward()
    for name, parameter in step.model.named_parameters():
        torch.testing.assert_close(results["gradient", name], parameter.grad, rtol=1e-5, atol=1e-7)


class Attention(nn.Module):
    """`attend` is given queries, keys and values of some heads, what stands at each place, and numbers by
    head and distance."""

    def __init__(self, attend: Callable[..., Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(20, WIDTH)
        self.queries, self.others = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3)
        self.bias = nn.Parameter(torch.randn(HEADS, PLACES) / 10)
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        parts = self.queries(self.words(x)).view(len(x), PLACES, 3, HEADS, WIDTH // HEADS)
        attended = self.attend(*parts.permute(2, 0, 3, 1, 4), x, self.bias)
        return self.others(attended.transpose(1, 2).flatten(2))


def of_all(mask: Callable[..., Tensor]) -> object:
    return create_block_mask(mask, None, None, PLACES, PLACES, device="cpu")


CAUSAL = of_all(lambda b, h, i, j: i >= j)
WINDOW = of_all(and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j < 3))


def documents(q: Tensor, k: Tensor, v: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    """A word 0 begins another document."""
    number = (x == 0).cumsum(1)

    def mask(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i >= j) & (number[b, i] == number[b, j])

    block_mask = create_block_mask(mask, len(x), None, PLACES, PLACES, device="cpu")
    return flex_attention(q, k, v, block_mask=block_mask)


def trained_bias(q: Tensor, k: Tensor, v: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    def score(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return 2 * torch.tanh(score / 2) + bias[h, (i - j).abs()]

    return flex_attention(q, k, v, score_mod=score, block_mask=CAUSAL)


def sums(q: Tensor, k: Tensor, v: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    attended, sums = flex_attention(q, k, v, block_mask=CAUSAL, return_lse=True, scale=0.3)
    return attended * torch.sigmoid(sums)[..., None]


def decides(q: Tensor, k: Tensor, v: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    attended = trained_bias(q, k, v, x, bias) + flex_attention(q, k, v, block_mask=CAUSAL)
    return attended * 2 if attended.mean().item() > 0 else attended


ATTENTION: dict[str, Callable[..., Tensor]] = {
    "causal": lambda q, k, v, x, bias: flex_attention(q, k, v, block_mask=CAUSAL),
    "all": lambda q, k, v, x, bias: flex_attention(q, k, v),
    "window-grouped": lambda q, k, v, x, bias: flex_attention(
        q, k[:, :2], v[:, :2], block_mask=WINDOW, enable_gqa=True
    ),
    "compiled": lambda q, k, v, x, bias: torch.compile(flex_attention)(q, k, v, block_mask=CAUSAL),
    "documents": documents,
    "trained-bias": trained_bias,
    "sums": sums,
    "decides": decides,
}


def attending(name: str) -> TrainingStep:
    model = Attention(ATTENTION[name])
    words = torch.randint(20, (2, SAMPLES, PLACES), generator=torch.Generator().manual_seed(1))
    words[0, 0, 3] = 0
    return TrainingStep(
        model=model,
        loss=lambda model, x, y: nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()),
        optimizer=sgd(model),
        inputs={"x": words[0], "y": words[1] % 3},
    )


@contextlib.contextmanager
def gradients_on_cpus() -> Iterator[None]:
    """PyTorch itself has none of FlexAttention there."""
    with higher_order_by_code(), compiled_code_by_itself():
        yield


@pytest.mark.parametrize("name", ATTENTION)
def test_flex_attention_trains(name: str, tmp_path: pathlib.Path) -> None:
    with gradients_on_cpus():
        exported = assert_same_as_eager(attending(name), tmp_path)
    by_products = name in ("trained-bias", "sums")
    kernel = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert (kernel in exported.ops()) is not by_products


@pytest.mark.parametrize("name", [n for n in ATTENTION if n not in ("compiled", "decides")])
def test_flex_attention_is_pytorchs(name: str) -> None:
    step = attending(name)
    with torch.no_grad():
        wanted = step.model(step.inputs["x"])
        with gradients_on_cpus():
            found = step.model(step.inputs["x"])
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)

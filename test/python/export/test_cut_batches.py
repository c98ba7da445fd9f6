"""Tests of steps that cut a batch to its longest sample, `x[:, : lengths.max()]`: layers then mix
elements along a dimension whose size depends on values, and the others must not see its padding."""

import pathlib
from typing import Callable

import pytest
import torch
import torch.nn.functional as F
from exporting import compare, export, sgd
from torch import Tensor, nn

from fsdp_mlir import ExportError, TrainingStep

SAMPLES, LONGEST, WIDTH, HEADS = 3, 8, 4, 2


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.places = nn.Parameter(torch.randn(LONGEST, WIDTH))
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.encoder = nn.TransformerEncoderLayer(
            WIDTH, HEADS, WIDTH, dropout=0.0, batch_first=True
        )


Body = Callable[[Layers, Tensor, Tensor], Tensor]


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def scores(model: Layers, x: Tensor, m: Tensor) -> Tensor:
    """Attention by hand, with a place for each element."""
    rows = heads(model.linear(x) + model.places[: x.shape[1]])
    weights = rows @ rows.transpose(-2, -1)
    weights = weights.masked_fill(~m[:, None, None], -torch.inf).softmax(-1)
    return (weights @ rows).transpose(1, 2).flatten(2).square().mean()


def attention(model: Layers, x: Tensor, m: Tensor) -> Tensor:
    rows = heads(model.linear(x))
    causal = F.scaled_dot_product_attention(rows, rows, rows, is_causal=True)
    masked = F.scaled_dot_product_attention(rows, rows, rows, attn_mask=m[:, None, None])
    # More keys than queries, and more queries than keys.
    all_of_it = F.scaled_dot_product_attention(
        heads(model.places[None].expand(3, -1, -1)), rows, rows
    )
    return (causal + masked).square().mean() + all_of_it.mean()


def encoder(model: Layers, x: Tensor, m: Tensor) -> Tensor:
    return model.encoder(x, src_key_padding_mask=~m)[m].square().mean()


def classes(model: Layers, x: Tensor, m: Tensor) -> Tensor:
    """All elements of all samples side by side, with the next one's class for each."""
    logits, wanted = model.linear(x)[:, :-1].reshape(-1, WIDTH), x.argmax(-1)[:, 1:].reshape(-1)
    return F.cross_entropy(logits, wanted.where(m[:, 1:].reshape(-1), -100))


def pairs(model: Layers, x: Tensor, m: Tensor) -> Tensor:
    """Of an even number of elements two are taken together."""
    rows = model.linear(x[:, : x.shape[1] // 2 * 2])
    return rows.view(SAMPLES, -1, 2 * WIDTH).cumsum(1).square().mean()


def normalized(model: Layers, x: Tensor, m: Tensor) -> Tensor:
    rows = F.pad(model.norm(model.linear(x).transpose(1, 2)), (2, 0), value=0.5)
    return (model.convolution(rows).sin().transpose(1, 2) * model.places[0]).mean()


def of_rows(model: Layers, x: Tensor, m: Tensor) -> Tensor:
    """Statistics of the elements that a mask selects."""
    return (model.norm(model.linear(x[m])) * model.places[1]).exp().mean()


def in_evaluation(model: Layers, x: Tensor, m: Tensor) -> Tensor:
    model.norm.eval()
    return model.norm(x.transpose(1, 2) * model.places[2, :, None]).exp().mean()


@pytest.mark.parametrize(
    "body",
    [scores, attention, encoder, classes, pairs, normalized, of_rows, in_evaluation],
)
def test_layers_see_the_longest_sample(tmp_path: pathlib.Path, body: Body) -> None:
    def loss(model: Layers, x: Tensor, n: Tensor) -> Tensor:
        longest = n.max()
        m = torch.arange(longest)[None] < n[:, None]
        return body(model, x[:, :longest], m)

    torch.manual_seed(0)
    model = Layers()
    lengths = [torch.tensor(n) for n in ([3, 5, 2], [8, 1, 8], [2, 2, 3])]
    x = torch.randn(SAMPLES, LONGEST, WIDTH)
    step = TrainingStep(
        model=model, loss=loss, optimizer=sgd(model), inputs={"x": x, "n": lengths[0]}
    )
    exported = export(step, tmp_path)
    for n in lengths:
        padding = torch.arange(LONGEST)[None] >= n.max()
        batch = {"x": torch.where(padding[..., None], torch.nan, x), "n": n}
        compare(step, exported, batch, tolerance=1e-6)


@pytest.mark.provokes("FSDP-E0206")
@pytest.mark.parametrize(
    "body, message",
    [
        (
            lambda x: F.max_pool1d(x.transpose(1, 2), 2).sum(),
            r"^test_cut_batches.py:\d+: the step needs a size .* range\(n\), a pooling",
        ),
        (
            lambda x: F.scaled_dot_product_attention(
                x[:, None, :2], x[:, None], x[:, None], is_causal=True
            ).sum(),
            r"^test_cut_batches.py:\d+: .*it is causal, with other numbers of queries",
        ),
    ],
)
def test_layers_that_need_a_number(
    tmp_path: pathlib.Path, body: Callable[[Tensor], Tensor], message: str
) -> None:
    model = Layers()
    inputs = {"x": torch.randn(SAMPLES, LONGEST, WIDTH), "n": torch.tensor([3, 5, 2])}
    step = TrainingStep(
        model=model,
        loss=lambda model, x, n: body(model.linear(x[:, : n.max()])),
        optimizer=sgd(model),
        inputs=inputs,
    )
    with pytest.raises(ExportError, match=message):
        export(step, tmp_path)


def sees_some(model: Layers, x: Tensor, m: Tensor) -> Tensor:
    """A masked autoencoder, which brings the rows that it sees, and those that it does not, together by
    samples."""
    seen = model.linear(x)[m].reshape(SAMPLES, -1, WIDTH)
    hidden = model.places[0].expand(SAMPLES, LONGEST - seen.shape[1], -1)
    guessed = torch.cat([model.encoder(seen), hidden], 1)[:, seen.shape[1] :]
    return F.mse_loss(model.linear(guessed), x[~m].view(SAMPLES, -1, WIDTH))


def test_rows_that_a_mask_selects_of_each_sample(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(SAMPLES, LONGEST, WIDTH)
    masks = [torch.rand(SAMPLES, LONGEST).argsort(1) < count for count in (3, 5, 7)]
    inputs, model = {"x": x, "m": masks[0]}, Layers()
    step = TrainingStep(model=model, loss=sees_some, optimizer=sgd(model), inputs=inputs)
    exported = export(step, tmp_path)
    for m in masks:
        compare(step, exported, {"x": x, "m": m}, tolerance=1e-6)
    exported.weights["fsdp.input.m"] = torch.eye(LONGEST, dtype=torch.bool)[:SAMPLES] | masks[0]
    with pytest.raises(RuntimeError, match=r"test_cut_batches.py:\d+: .*equal"):
        exported.run()


def test_samples_as_long_as_the_one_with_the_most(tmp_path: pathlib.Path) -> None:
    """Rows of a batch are put into a tensor by samples, as the boxes of each picture are by YOLO."""

    def pads(model: Layers, x: Tensor, sample: Tensor) -> Tensor:
        _, counts = sample.unique(return_counts=True)
        longest = counts.to(torch.int32).max()
        whole = torch.zeros(SAMPLES, longest, WIDTH) + x.new_ones((longest, 1))
        whole = whole + torch.arange(longest)[:, None]
        ends = torch.zeros(SAMPLES + 1, dtype=torch.int64)
        ends = ends.scatter_add(0, sample + 1, torch.ones_like(sample)).cumsum(0)
        whole[sample, torch.arange(len(x)) - ends[sample]] = model.linear(x)
        return whole.exp().mean() + whole.amax(1).sum()

    samples = [[0, 0, 1, 2, 2, 2], [0, 1, 2, 2, 2, 2], [0, 0, 1, 1, 2, 2], [0] * 6]
    inputs = {"x": torch.randn(6, WIDTH), "sample": torch.tensor(samples[0])}
    model = Layers()
    step = TrainingStep(model=model, loss=pads, optimizer=sgd(model), inputs=inputs)
    exported = export(step, tmp_path)
    for sample in samples:
        compare(step, exported, {**inputs, "sample": torch.tensor(sample)}, tolerance=1e-6)

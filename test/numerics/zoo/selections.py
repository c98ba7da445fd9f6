"""Steps whose sizes depend on values: elements that a mask selects, edges, experts' tokens."""

from __future__ import annotations

from typing import Callable

import torch
from torch import nn
from torch.nn import functional as F

import fsdp_mlir
from entry import Entry, Tensor, classes, numbers, together

WIDTH, LENGTH, WORDS, NODES = 12, 8, 20, 6


class _Encoder(nn.Module):
    """Words in context."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.body = nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.embedding(x))


def _masked_words(model: nn.Module, x: Tensor, hidden: Tensor) -> Tensor:
    """As BERT is trained: logits of the hidden words alone."""
    states = model(x.masked_fill(hidden, 0))
    return F.cross_entropy(model.head(states[hidden]), x[hidden])


def _margin(model: nn.Module, x: Tensor, hidden: Tensor) -> Tensor:
    """Hard negatives: the mean over those pairs that break a margin."""
    z = F.normalize(model(x).mean(1), dim=-1)
    apart = torch.cdist(z, z) + torch.eye(len(z))
    too_near = F.relu(1.5 - apart)
    return too_near[too_near > 0].mean() + model.head(z).square().mean()


def _ragged(model: nn.Module, x: Tensor, hidden: Tensor) -> Tensor:
    """Sequences of several lengths as one row of words, as flash attention's callers do."""
    kept = ~hidden
    places = torch.nonzero(kept.flatten()).flatten()
    rows = model.embedding(x).flatten(0, 1)[places]
    rows = rows + model.body.linear2(model.body.linear1(model.body.norm1(rows)).relu())
    whole = torch.zeros(x.numel(), WIDTH).index_copy(0, places, rows).view(*x.shape, WIDTH)
    return F.cross_entropy(model.head(whole).flatten(0, 1), x.flatten())


def _longest(model: nn.Module, x: Tensor, lengths: Tensor) -> Tensor:
    """A batch that is cut to its longest sample."""
    x = x[:, : lengths.max()]
    padding = torch.arange(x.shape[1]) >= lengths[:, None]
    states = model.body(model.embedding(x), src_key_padding_mask=padding)
    return F.cross_entropy(model.head(states).transpose(1, 2), x.masked_fill(padding, -100))


class _Graph(nn.Module):
    """Messages along the edges that there are."""

    def __init__(self) -> None:
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU())
        self.update = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        batch, source, target = edges.nonzero(as_tuple=True)
        message = self.message(torch.cat((x[batch, source], x[batch, target]), -1))
        gathered = torch.zeros_like(x).index_put((batch, target), message, accumulate=True)
        degree = edges.sum(1).clamp(min=1).unsqueeze(-1)
        return self.update((gathered / degree).flatten(0, 1), x.flatten(0, 1)).view(x.shape)


class _Experts(nn.Module):
    """The tokens of each expert, of which each takes a quarter at most."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gate = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embedding(x).flatten(0, 1)
        weights, chosen = self.gate(tokens).softmax(-1).max(-1)
        out = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            first = (chosen == i) & ((chosen == i).cumsum(0) <= LENGTH // 2)
            with fsdp_mlir.at_most(LENGTH // 2):
                rows = torch.where(first)[0]
            out = out.index_add(0, rows, expert(tokens[rows]) * weights[rows, None])
        return self.head(tokens + out)


class _TopExperts(_Experts):
    """The same with two experts for each token, as of Mixtral."""

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embedding(x).flatten(0, 1)
        weights, chosen = self.gate(tokens).softmax(-1).topk(2)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(tokens)
        for mask, expert in zip(F.one_hot(chosen, 4).permute(2, 1, 0), self.experts, strict=True):
            place, rows = torch.where(mask)
            out = out.index_add(0, rows, expert(tokens[rows]) * weights[rows, place, None])
        return self.head(tokens + out)


def _words(model: nn.Module, x: Tensor) -> Tensor:
    return F.cross_entropy(model(x), x.flatten())


def _distinct(model: nn.Module, x: Tensor) -> Tensor:
    """A penalty on those rows of an embedding that a batch uses."""
    used, counts = torch.unique(x, return_counts=True)
    return _words(model, x) + 0.1 * (model.embedding(used).norm(dim=-1) * counts).sum()


def _adaptive() -> nn.Module:
    model = _Encoder()
    model.head = nn.AdaptiveLogSoftmaxWithLoss(WIDTH, WORDS, [4, 12], div_value=2.0)
    return model


def _hidden() -> Callable[[int], dict[str, Tensor]]:
    return together(x=classes(WORDS, LENGTH, first=1), hidden=lambda n: torch.rand(n, LENGTH) < 0.4)


MODELS: dict[str, Callable[[], Entry]] = {
    "masked-words": lambda: Entry(_Encoder(), _hidden(), _masked_words),
    "ragged-words": lambda: Entry(_Encoder(), _hidden(), _ragged),
    "longest-sample": lambda: Entry(
        _Encoder(),
        together(x=classes(WORDS, LENGTH), lengths=classes(LENGTH + 1, first=1)),
        _longest,
    ),
    "hard-negatives": lambda: Entry(_Encoder(), _hidden(), _margin),
    "graph": lambda: Entry(
        _Graph(),
        together(
            x=numbers(NODES, WIDTH),
            edges=lambda n: torch.rand(n, NODES, NODES) < 0.3,
            y=numbers(NODES, WIDTH),
        ),
        lambda model, x, edges, y: F.mse_loss(model(x, edges), y),
    ),
    "experts-at-most": lambda: Entry(_Experts(), together(x=classes(WORDS, LENGTH)), _words),
    "two-experts": lambda: Entry(_TopExperts(), together(x=classes(WORDS, LENGTH)), _words),
    "distinct-words": lambda: Entry(_Experts(), together(x=classes(WORDS, LENGTH)), _distinct),
    "adaptive-softmax": lambda: Entry(
        _adaptive(),
        together(x=classes(WORDS, LENGTH)),
        lambda model, x: model.head(model(x).flatten(0, 1), x.flatten()).loss,
    ),
}

"""Random training steps in which the values of tensors decide sizes, places and ways, against eager
PyTorch.

python test/python/export/value_fuzz.py --seeds 0:200     says which seeds fail, and how

A seed is a model whose forward selects by masks, counts, branches and loops by what a batch holds.
`fuzz_run` says what must hold. Sums over what is selected go over padding, whose order is not
eager's: losses and weights are near eager's and not its bits. A run ends where eager has an error.
"""

from __future__ import annotations

import random
import re

import torch
from fuzz_run import Batch, Fuzz
from torch import Tensor, nn

ROWS, LENGTH, WIDTH, CLASSES, WORDS = 6, 4, 4, 3, 5
# There is a word for each row, too: the way that is not taken must not end a run by a place that
# only the condition keeps in range (docs/training.md).
HEAD = """import threading
import torch
import torch.nn.functional as F
from torch import nn

LOCK = threading.RLock()


class Model(nn.Module):
    def __init__(m):
        super().__init__()
        m.layer, m.head = nn.Linear(4, 4), nn.Linear(4, 3)
        m.words = nn.Embedding(6, 4)
        m.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        m.register_buffer("mean", torch.zeros(4))
        m.register_buffer("seen", torch.zeros(6))
        m.register_buffer("queue", torch.rand(6, 4))
        m.register_buffer("pointer", torch.tensor(0))
        m.register_buffer("count", torch.tensor(0))

    def forward(m, x, mask, y, lengths, ids, seq):
"""
KINDS: dict[str, tuple[str, ...]] = {
    # A truth value for each row.
    "mask": (
        *("mask", "mask", "(~mask)", "(y != -100)", "(y == {i})", "(x[:, 0] > 0)", "(ids == {w})"),
        *("(lengths > {i})", "(mask & (y != -100))", "(mask | (lengths > 2))", "y.ge(0)"),
        *("(h.detach()[:, {i}] > 0)", "(h.detach().argmax(-1) == {i})", "(y == y.max())"),
        *("((ids[:, None] == ids[None]).sum(1) > 1)", "(lengths >= lengths.float().mean())"),
        *("torch.isin(ids, ids[mask])", "(torch.arange(len(x)) < mask.sum())"),
    ),
    # Rows, as many as there are.
    "places": (
        *("{mask}.nonzero().flatten()", "torch.where({mask})[0]", "{mask}.nonzero().squeeze(-1)"),
        *(
            "torch.nonzero({mask}, as_tuple=True)[0]",
            "torch.arange(len(x))[{mask}]",
            "ids.unique()",
        ),
        *(
            "{mask}.nonzero()[:, 0]",
            "{mask}.nonzero().view(-1).flip(0)",
            "torch.unique(ids[{mask}])",
        ),
        *("h.detach().sum(-1).topk(2).indices", "x[:, 1].argsort()[:3]", "ids[{mask}]"),
        *("x[:, 2].sort(descending=True)[1][: int({mask}.sum())]", "torch.argsort(lengths)[:2]"),
        *("torch.arange(len(x)).repeat_interleave({mask}.long())", "torch.tensor([0, 2])"),
    ),
    # One place.
    "place": (
        *("int(x[:, 0].argmax())", "x[:, 1].argmin().item()", "ids[{i}].item()", "lengths[{i}]"),
        *("int(lengths.max())", "ids[0]", "x.sum(-1).topk(1)[1][0]", "int({mask}.sum()) - 1"),
        *("h.detach().sum(-1).argmax()", "ids.tolist()[{i}]", "{mask}.long().argmax().item()"),
    ),
    # Rows with a gradient, as many as there are.
    "rows": (
        *("h[{mask}]", "h[{mask}]", "h[{places}]", "m.layer(x[{mask}])", "m.words(ids[{mask}])"),
        *("h.index_select(0, {places})", "m.words({places})", "h[: int({mask}.sum())]"),
        *("torch.cat([h[{mask}], h[{mask}]])", "torch.cat((h[{mask}], m.words(ids[:2])))"),
        *(
            "h[{mask}] - h[{mask}].mean(0)",
            "h[{mask}].sort(0)[0]",
            "h[{mask}][:2]",
            "h[{mask}][1:]",
        ),
        *("h.repeat_interleave({mask}.long() + 1, dim=0, output_size=None)", "h.detach()[{mask}]"),
        *("seq[torch.arange(4)[None] < lengths[:, None]]", "F.normalize(h[{mask}], dim=-1)"),
        *("m.experts[{i}](h[{mask}]).relu()", "h[{mask}].clamp(-0.5, 0.5)", "h[{mask}].flip(0)"),
        *("h[int(lengths[0]) :]", "h[{place} : {place} + 2]", "h[{mask}].cumsum(0)"),
    ),
    # A number that counts, of Python's.
    "count": (
        *("int({mask}.sum())", "{mask}.sum().item()", "len(h[{mask}])", "{places}.numel()"),
        *("max(1, int({mask}.sum()))", "h[{mask}].shape[0]", "lengths.sum().item()"),
        *("len({places})", "max({mask}.sum().item(), 1)", "min(3, int(lengths.max()))"),
        "sum(lengths.tolist())",
    ),
    # A number with a fraction.
    "number": (
        *("float({mask}.sum())", "x.abs().mean().item()", "{mask}.float().mean().item()"),
        *("0.5", "0.9", "(1.0 / max(1, {count}))", "float(lengths[{i}])", "{count}"),
        *("max(0.1, x.mean().item())", "({count} + 1)", "h.detach().norm().item()"),
        "(0.5 if {condition} else 2.0)",
    ),
    # A loss, a tensor without dimensions.
    "scalar": (
        *("{rows}.sum()", "{rows}.square().sum()", "{rows}.square().mean()", "{rows}.tanh().sum()"),
        *("{rows}.logsumexp(-1).sum()", "(h * {mask}[:, None]).sum() / {mask}.sum().clamp(min=1)"),
        *("F.mse_loss(h[s], x[s], reduction='sum')", "F.l1_loss(h[s], x[s])", "h[s].mean()"),
        "F.cross_entropy(m.head(h), y, ignore_index=-100, reduction='sum') / max(1, {count})",
        "F.cross_entropy(m.head(h), y, ignore_index=-100)",
        "F.cross_entropy(m.head(h), y.clamp(min=0), reduction='none')[{mask}].sum()",
        "F.cross_entropy(m.head(h[s]), y[s].clamp(min=0), reduction='sum')",
        "F.cross_entropy(m.head(h[y >= 0]), y[y >= 0], reduction='sum')",
        "(F.cross_entropy(m.head(h), y, reduction='none', ignore_index=-100) * {mask}).sum()",
        "F.nll_loss(m.head({rows}).log_softmax(-1), {rows}.argmax(-1).clamp(max=2))",
        "F.binary_cross_entropy_with_logits(h[:, 0], {mask}.float())",
        "h.masked_fill(~{mask}[:, None], 0.0).square().sum() / max({count}, 1)",
        "h.masked_select({mask}[:, None]).abs().sum()",
        "torch.where({mask}[:, None], h, x).square().mean()",
        "h[{place}].square().sum()",
        "h[{place}, {i}] * {number}",
        "h.gather(1, lengths[:, None].clamp(max=3)).mean()",
        "m.head(h).topk(2)[0].sum() * {number}",
        "m.words(ids).sum(-1)[{mask}].sum()",
        "m.words.weight[{places}].pow(2).sum()",
        "(seq.mean(-1) * (torch.arange(4)[None] < lengths[:, None])).sum() * h.mean()",
        "h.sum() * 0.0",
        "h.new_zeros(()) + h[{mask}].amax(-1).sum()",
        "sum(h[i].sum() for i in range(len(h)) if i < 3)",
        "torch.zeros(3, 4).index_add(0, y.clamp(min=0), h).square().sum()",
        "torch.zeros(6, 4).scatter_add(0, ids[:, None].expand(-1, 4), h).amax()",
        "torch.zeros(6, 4).index_put((ids,), h, accumulate=True).tanh().sum()",
        "(F.one_hot(ids, 6).float().T @ h)[{places}].abs().sum()",
        "torch.bincount(ids, minlength=6).float() @ m.words.weight.sum(-1)",
        "F.cosine_similarity({rows}.sum(0), h.mean(0), dim=0)",
        "torch.cdist(h[{mask}], h).sum()",
        "{rows}.std(unbiased=False)",
        "h[{mask}].max()",
        "{rows}[0].sum()",
        "{rows}[-1].sum()",
    ),
    "condition": (
        *("{mask}.any()", "{mask}.any()", "{mask}.all()", "{mask}.sum() > {i}", "not {mask}.any()"),
        *("{mask}.sum().item() == 0", "len({places}) == 0", "h[{mask}].numel() == 0"),
        *("h[{mask}].shape[0] > 2", "h.sum() > {number}", "h.mean().item() < 0.1", "{count} > 2"),
        *("torch.isnan(h).any()", "lengths.max() > 3", "ids[0] == ids[1]", "int(y[0]) == -100"),
        *(
            "bool({mask}.any())",
            "{mask}.any().item() and {mask}.any()",
            "{i} in ids",
            "{count} == 0",
        ),
        *(
            "x[0, 0] > 0 or {mask}.all()",
            "len(losses) == 0",
            "losses",
            "{mask}.float().mean() > 0.5",
        ),
        *("torch.equal(ids, ids.sort()[0])", "m.count > 3", "m.count % 2 == 0", "{scalar} > 1"),
        *("torch.any({mask})", "{place} == 1", "y.unique().numel() > 1", "{count}", "{mask}[{i}]"),
    ),
}
# What a step does, in one line or several. `s` is a mask, `i` and `p` are places.
STATEMENTS = (
    *("losses.append({scalar})", "losses.append({scalar})", "losses += [{scalar} * {number}]"),
    *("h = h * {number}", "h = h + {scalar}", "h = torch.where({mask}[:, None], m.layer(h), h)"),
    *("h = h.masked_fill({mask}[:, None], 0.0)", "h = h.index_add(0, ids, m.words(ids))"),
    "h = h.clone()\nh[s] = m.experts[{i}](h[s])",
    "h = h.clone()\nh[s] *= {number}",
    "h = h.clone()\nh[s] += h[s].mean(0)",
    "h = h.clone()\nh[s, {i}] = {number}",
    "h = h.clone()\nh[{place}] = h[0] * 2",
    "h = h.clone()\nh[: int(s.sum())] = 0.5",
    "out = torch.zeros(3, 4, 4)\nfor b in range(3):\n    n = int(lengths[b])\n"
    "    out[b, :n] = m.layer(seq[b, :n])\nlosses.append(out.square().sum())",
    "out = torch.zeros(6, 4)\nout[: len(h[s])] = h[s]\nh = h + out",
    "losses.append((h[s] * x[s]).sum() + (h[s] - h[s].detach().mean(0)).abs().sum())",
    "h = h.clone()\nh[int(lengths[0]) :] *= 0.5",
    "h = h.clone()\nh[:, 0].masked_fill_(s, 0.0)",
    "h = h.clone()\nh[{places}] = 0",
    "h = h.clone()\nh.index_fill_(0, {places}, 0.5)",
    "i = {places}\nh = h.index_add(0, i, m.layer(h[i]))",
    "i = {places}\nh = h.index_copy(0, i, x[i])",
    "i = {places}\nout = torch.zeros_like(h)\nout[i] = h[i] * 2\nh = h + out",
    "with torch.no_grad():\n    m.mean.lerp_(h[s].mean(0) if s.any() else h.mean(0), 0.1)",
    "with torch.no_grad():\n    m.mean.mul_(0.9).add_(h[s].sum(0), alpha=0.1)",
    "with torch.no_grad():\n    m.seen += torch.bincount(ids[s], minlength=6)",
    "with torch.no_grad():\n    m.seen[ids] += 1",
    "with torch.no_grad():\n    m.queue[int(m.pointer)] = h[{place}]\n    m.pointer.add_(1).fmod_(6)",
    "with torch.no_grad():\n    m.queue[s] = h[s]",
    "if s.any():\n    with torch.no_grad():\n        m.mean.copy_(0.9 * m.mean + 0.1 * h[s].mean(0))",
    "m.count += 1",
    "m.count += s.sum()",
    "h = h - m.mean",
    "losses.append((h @ m.queue.clone().T).logsumexp(1)[s].sum())",
    "losses.append((m.seen / m.seen.sum().clamp(min=1)) @ m.words.weight.mean(-1))",
    "for e, expert in enumerate(m.experts):\n    s = ids == e\n    h = h.clone()\n"
    "    h[s] = expert(h[s])",
    "out = torch.zeros_like(h)\nfor e, expert in enumerate(m.experts):\n"
    "    (i,) = torch.where(h.detach().argmax(-1) == e)\n    if len(i) == 0:\n        continue\n"
    "    out.index_add_(0, i, expert(h[i]))\nh = out",
    "for c in range(3):\n    s = y == c\n    if not s.any():\n        continue\n"
    "    losses.append(F.cross_entropy(m.head(h[s]), y[s]))",
    "for c in range(3):\n    if (y == c).sum() > 0:\n        losses.append(h[y == c].mean() * {number})",
    "for b in range(3):\n    n = int(lengths[b])\n    losses.append(m.layer(seq[b, :n]).sum())",
    "for b in range(2):\n    n = lengths[b].item()\n    if n == 0:\n        continue\n"
    "    losses.append(m.layer(seq[b, :n]).mean())",
    "for b, n in enumerate(lengths.tolist()):\n    losses.append(m.layer(seq[b, :n]).square().sum())",
    "for e in F.one_hot(y.clamp(min=0), 3).sum(0).nonzero():\n"
    "    losses.append(m.experts[e](h).mean() * {number})",
    "for i in s.nonzero().flatten():\n    losses.append(h[i].square().sum())\n    break",
    "parts = [h[y == c] for c in range(3)]\nlosses.append((torch.cat(parts)[:2] ** 2).sum())",
    "parts = h[y.argsort(stable=True)].split([int((y == c).sum()) for c in (-100, 0, 1, 2)])\n"
    "losses.append(parts[1].sum() + parts[3].square().sum())",
    "parts = [m.layer(seq[b, : int(lengths[b])]) for b in range(3)]\n"
    "losses.append(nn.utils.rnn.pad_sequence(parts, batch_first=True).square().sum())",
    "parts = torch.cat([seq[b, : lengths[b]] for b in range(3)])\nlosses.append(m.layer(parts).sum())",
    "flat = m.layer(seq[torch.arange(4)[None] < lengths[:, None]])\n"
    "losses.append(torch.stack([p.sum() for p in flat.split(lengths.tolist())]).square().sum())",
    "total, n = 0.0, 0\nfor c in range(3):\n    total = total + h[y == c].sum()\n"
    "    n += int((y == c).sum())\nlosses.append(total / max(n, 1))",
    "each = F.cross_entropy(m.head(h), y, ignore_index=-100, reduction='none')\n"
    "losses.append(each[each > each.detach().mean()].sum() / max(1, {count}))",
    "each = h.square().mean(-1)\nlosses.append(each.topk(2)[0].mean() + each.sort()[0][:2].sum())",
    "u, inverse = ids.unique(return_inverse=True)\n"
    "losses.append(h.new_zeros(len(u), 4).index_add(0, inverse, h).square().sum())",
    "u, counts = ids.unique(return_counts=True)\nlosses.append((m.words(u).sum(-1) / counts).sum())",
    "h = h.clone().requires_grad_()",
    "x = x.clone().requires_grad_()\nh = h + m.layer(x)\n"
    "(g,) = torch.autograd.grad(h[s].sum(), x, create_graph=True)\nlosses.append(g.square().sum())",
    "keep = s.float()[:, None]\nh = h * keep + h.detach() * (1 - keep)",
    "if len(s.nonzero()) == 0:\n    return h.sum() * 0.0",
    "if {condition}:\n    return {scalar}",
    "best = h.detach().sum(-1).argmax()\nh = h.clone()\nh[best] = h[best] * {number}",
    "n = {count}\nlosses.append(h.sum() / n if n > 0 else h.sum() * 0.0)",
    "n = {count}\nlosses.append((m.layer(x)[:n] * torch.arange(1, n + 1)[:, None]).sum()"
    " if n <= 6 else h.mean())",
    "v = h.view(-1)\nv = v[v > 0]\nlosses.append(v.sum() / max(1, v.numel()))",
    "h = h.clone()\nview = h[:, 1:3]\nview[s] = 0.5",
    "h = h.clone()\nh.view(-1)[:: 5][: {i}] = 1.0\nh[h > 0.8] = 0.8",
)
ENDS = (
    "return sum(losses) / len(losses)",
    "return torch.stack(losses).mean()",
    "return sum(losses) + h.square().mean()",
    "return sum(losses, h.mean())",
    "return torch.stack([*losses, h.sum()]).sum()",
    "loss = h.square().mean()\nfor each in losses:\n    loss = loss + each\nreturn loss",
    "loss = sum(losses, h.mean())\nif loss > 3:\n    loss = loss / loss.item()\nreturn loss",
    "loss = sum(losses, h.mean())\nreturn loss.clamp(max=5.0)",
    "if not losses:\n    return h.sum() * 0.0\nreturn torch.stack([l.reshape(()) for l in losses]).mean()",
    "return sum(losses, h.mean()) / max(1, {count})",
    "return (sum(losses) if {condition} else h.mean())",
)


class Writer:
    """Writes the step of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        lines = ["h = m.layer(x).tanh()", "losses = []", self._fill("s = {mask}")]
        for _ in range(self._random.randint(1, 3)):
            lines += self._statement(0)
        lines += self._fill(self._random.choice(ENDS)).split("\n")
        if self._random.random() < 0.25:  # which Dynamo does not follow
            lines = ["with LOCK:", *("    " + line for line in lines)]
        self.source = HEAD + "".join(f"        {line}\n" for line in lines)

    def _statement(self, depth: int) -> list[str]:
        kind = self._random.random()
        if depth > 1 or kind < 0.7:
            lines = [self._fill("s = {mask}")] if self._random.random() < 0.5 else []
            return lines + self._fill(self._random.choice(STATEMENTS)).split("\n")
        lines = [self._fill("if {condition}:"), *self._block(depth)]
        return [*lines, "else:", *self._block(depth)] if kind > 0.85 else lines

    def _block(self, depth: int) -> list[str]:
        return ["    " + line for line in self._statement(depth + 1)]

    def _fill(self, text: str, depth: int = 0) -> str:
        """`text` with something of the kind that each brace asks for."""
        return re.sub(r"\{(\w+)\}", lambda match: self._of(match[1], depth), text)

    def _of(self, kind: str, depth: int) -> str:
        if kind in "iw":
            return str(self._random.randrange(3 if kind == "i" else WORDS))
        choices = KINDS[kind]
        if depth > 2:
            choices = tuple(text for text in choices if "{" not in text) or ("h.sum()",)
        return self._fill(self._random.choice(choices), depth + 1)


# Of each batch: rows that the mask takes, labels, lengths, words.
_NONE, _ALL = [0] * ROWS, [1] * ROWS
BATCHES = (
    ([1, 0, 1, 1, 0, 0], [0, 2, -100, 1, 1, -100], [2, 4, 0, 1, 3, 2], [0, 1, 1, 4, 2, 0]),
    (_NONE, [1, 1, 1, -100, 0, 2], [4, 1, 2, 2, 3, 1], [2, 2, 2, 2, 2, 2]),
    (_ALL, [-100] * ROWS, [1] * ROWS, [0, 1, 2, 3, 4, 0]),
    ([0, 0, 0, 0, 1, 0], [2] * ROWS, [0, 0, 3, 0, 4, 0], [4, 3, 3, 1, 0, 1]),
    ([1, 1, 0, 0, 0, 0], [-100, -100, -100, -100, 0, -100], [0] * ROWS, [1, 0, 3, 3, 3, 3]),
    (_NONE, [0, 0, 1, 1, 2, 2], [4] * ROWS, [0, 0, 1, 1, 2, 3]),
    ([0, 1, 1, 1, 1, 1], [1, -100, 2, 0, 0, 1], [3, 2, 4, 1, 1, 4], [4] * ROWS),
)


def batches() -> list[Batch]:
    generator = torch.Generator().manual_seed(1)
    return [
        {
            "x": torch.randn(ROWS, WIDTH, generator=generator),
            "mask": torch.tensor(mask).bool(),
            "y": torch.tensor(y),
            "lengths": torch.tensor(lengths),
            "ids": torch.tensor(ids),
            "seq": torch.randn(ROWS, LENGTH, WIDTH, generator=generator),
        }
        for mask, y, lengths, ids in BATCHES
    ]


def loss(model: nn.Module, **batch: Tensor) -> Tensor:
    return model(**batch)


FUZZ = Fuzz(
    source=lambda seed: Writer(seed).source,
    batches=batches,
    loss=loss,
    optimizer=lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9, weight_decay=0.1),
    # Of what the loss gives, it names the loss.
    places=(f"value_fuzz.py:{loss.__code__.co_firstlineno}: ",),
    near=1e-5,
    ends_with_eager=True,
)

if __name__ == "__main__":
    FUZZ.main(__doc__.splitlines()[0])

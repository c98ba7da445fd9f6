"""Tests of steps that decide by values, `if mask.any():`, with batches for which they decide one way and
the other: a plan computes both ways, and has eager's numbers of the one that eager takes."""

import pathlib
import sys
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from exporting import classify, compare, export, sgd
from torch import Tensor, nn

from fsdp_mlir import ExportError, TrainingStep

WIDTH = 4
# Of which side of zero the rows of a batch are.
BATCHES = {"both": (3, 2), "positive": (5, 0), "negative": (0, 5)}


class Model(nn.Module):
    def __init__(self, body: Callable[..., Tensor]) -> None:
        super().__init__()
        self.first, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, 3)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.scale = nn.Parameter(torch.tensor([0.5]))
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self, x)


def batch(name: str) -> dict[str, Tensor]:
    positive, negative = BATCHES[name]
    x = torch.randn(positive + negative, WIDTH, generator=torch.Generator().manual_seed(3))
    x[:, 0] = x[:, 0].abs() + 0.1
    x[positive:, 0] *= -1
    return {"x": x}


def step_of(body: Callable[..., Tensor], **options: Any) -> TrainingStep:
    torch.manual_seed(1)
    model = Model(body)
    return TrainingStep(
        model=model,
        loss=lambda model, x: model(x),
        optimizer=sgd(model),
        inputs=batch("both"),
        **options,
    )


def head(m: Model, h: Tensor) -> Tensor:
    return m.last(F.relu(h)).square().mean()


def skips_rows(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    mask = x[:, 0] > 0
    if torch.any(mask):
        h[mask] = h[mask].sigmoid()
    return head(m, h)


def has_a_case_of_none(m: Model, x: Tensor) -> Tensor:
    rows = m.first(x).sum(-1)[x[:, 0] > 0]
    if len(rows) == 0:
        return m.last(x).sum() * 0.0
    return rows.square().sum()


def of_sizes(m: Model, x: Tensor) -> Tensor:
    places = torch.nonzero(x[:, 0] > 0)
    h = m.first(x)
    if places.numel() > 2 and places.shape[0] < 5:
        h = m.other(h)
    return head(m, h)


def of_counts(m: Model, x: Tensor) -> Tensor:
    n = int((x[:, 0] > 0).sum())
    h = m.first(x)
    if max(1, n) > 3 or min(n, 2) + n == 0:
        h = m.other(h)
    return head(m, h)


def has_nan_on_the_other_way(m: Model, x: Tensor) -> Tensor:
    h = m.first(x) * x[:, :1]
    if x.amin() > -0.05 or x[0, 0] > 0:
        h = h + x[0, 0].log() * m.scale.sqrt()
    else:
        h = h / (x[0, 0] - x[0, 0].abs()).sqrt().nan_to_num(1.0)
    return head(m, h)


def compares_tensors(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    if torch.equal(x[:, 0], x[:, 0].abs()) or torch.equal(h, h[1:]):
        h = m.other(h)
    if x[:, 0].neg().allclose(x[:, 0].abs()):
        h = h * m.scale
    return head(m, h)


def bounds_a_size_on_one_way(m: Model, x: Tensor) -> Tensor:
    """On it a number is at most how many rows there are, and on the other one more."""
    h = m.first(x)
    n = (x[:, 0] > 0).long().mul(3).sum().item()
    if n < 6:
        h = h + (h[:n] * torch.arange(1, n + 1)[:, None]).sum()
    return head(m, h)


def asks_before_it_bounds_a_size(m: Model, x: Tensor) -> Tensor:
    """Of all rows, where a later decision has a way on which they are two at most."""
    h = m.first(x)
    rows = h[x[:, 0] > 0]
    if rows.sum() > 0:
        h = m.other(h)
    if len(rows) < 3:
        h = h + (rows + h[:2][: len(rows)]).sum()
    return head(m, h)


def by_a_parameter(m: Model, x: Tensor) -> Tensor:
    return head(m, m.first(x) if m.scale > x[0, 0] else m.other(x))


def nested(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    if (x[:, 0] > 0).any():
        if (x[:, 0] > 0).all():
            h = m.other(h)
        else:
            h = h.sigmoid()
    elif 0.0 in x[:, 1:]:
        h = h * m.scale
    return head(m, h)


def in_a_block_that_is_repeated(m: Model, x: Tensor) -> Tensor:
    h = x
    for layer in (m.first, m.first):
        h = layer(h)
        if h.mean().item() > 0:
            h = h.tanh() * m.scale
    return head(m, h)


def updates_a_buffer(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    if x[0, 0] > 0:
        h = m.norm(h)
    return head(m, h)


def draws_behind(m: Model, x: Tensor) -> Tensor:
    h = F.dropout(m.first(x), 0.5)
    if torch.rand(()) > x[0, 0]:
        h = m.other(h)
    return head(m, F.dropout(h + torch.randn(WIDTH), 0.5))


def draws_behind_attention(m: Model, x: Tensor) -> Tensor:
    """As layers that are left out by chance: each looks at a number of its own."""
    h = x
    for layer in (m.first, m.other):
        if torch.rand(1).item() > 0.3:
            h = F.scaled_dot_product_attention(*(layer(h)[None, None],) * 3)[0, 0]
    return head(m, h)


def takes_an_order(m: Model, x: Tensor) -> Tensor:
    order = torch.randperm(3).tolist()
    return m.first(x)[:, [place for place in order if place]].cumsum(-1).square().mean()


def leaves_its_own_number(m: Model, x: Tensor) -> Tensor:
    """As the scales that torchvision's poolers compute in each step."""
    m.scales = [2 ** float(torch.tensor(0.3).log2().round())]
    h = m.first(x)
    if x[0, 0] > 0:
        h = m.other(h)
    return head(m, h) * m.scales[0]


BODIES = (
    *(
        skips_rows,
        has_a_case_of_none,
        of_sizes,
        of_counts,
        has_nan_on_the_other_way,
        compares_tensors,
        bounds_a_size_on_one_way,
        asks_before_it_bounds_a_size,
        by_a_parameter,
        nested,
    ),
    *(
        in_a_block_that_is_repeated,
        updates_a_buffer,
        draws_behind,
        draws_behind_attention,
        takes_an_order,
        leaves_its_own_number,
    ),
)


@pytest.mark.parametrize("body", BODIES)
def test_numbers_are_eagers(tmp_path: pathlib.Path, body: Callable[..., Tensor]) -> None:
    step = step_of(body)
    exported = export(step, tmp_path)
    assert any("the step decides by values" in text for text in exported.notes)
    for name in BATCHES:
        compare(step, exported, batch(name))


def test_what_follows_is_computed_once(tmp_path: pathlib.Path) -> None:
    def body(m: Model, x: Tensor) -> Tensor:
        h = m.first(x)
        if x[0, 0] > 0:
            h = m.other(h)
        return head(m, m.norm(h))

    ops = export(step_of(body), tmp_path).ops()
    assert ops.count("aten::addmm") == 3
    assert ops.count("aten::native_batch_norm_backward") == 1
    assert ops.count("aten::mm") == 2 * 3 - 1


def test_draws_of_one_way_are_noted(tmp_path: pathlib.Path) -> None:
    def body(m: Model, x: Tensor) -> Tensor:
        h = m.first(x)
        if x[0, 0] > 0:
            h = F.dropout(h, 0.5)
        return head(m, F.dropout(h, 1e-9))  # which drops nothing, whatever it draws

    exported = export(step_of(body), tmp_path)
    assert any(
        "random numbers of one way alone are drawn in each step" in n for n in exported.notes
    )
    compare(step_of(body), exported, batch("positive"))
    compare(step_of(body), exported, batch("negative"))


def keeps_last(losses: list[Tensor]) -> Tensor:
    for loss in losses:
        last = loss
    return last


def raises_itself(losses: list[Tensor]) -> Tensor:
    for loss in losses:
        return loss
    raise LookupError("no loss")


OF_NONE = {
    "loss returns int": sum,
    "the loss has no gradient": lambda ls: sum(ls, torch.zeros(())),
    r"\S+:\d+: .* fails \(ZeroDivisionError: division by zero\)": lambda ls: sum(ls) / len(ls),
    r"\S+:\d+: .* fails \(\w+: stack expects a non-empty": lambda ls: torch.stack(ls).mean(),
    r"\S+:\d+: .* fails \(\w+: cat expects at least": lambda ls: torch.cat(
        [x[None] for x in ls]
    ).sum(),
    r"\S+:\d+: .* fails \(\w+: The size of tensor a \(0\) must match": lambda ls: (
        torch.ones(3 * len(ls)) * torch.ones(3) * sum(ls)
    ).sum(),
    r"\S+:\d+: .* fails \(IndexError: list index out of range\)": lambda ls: ls[0],
    r"\S+:\d+: .* fails \(UnboundLocalError: .* 'last'": keeps_last,
    r"\S+:\d+: .* fails \(LookupError: no loss\)": raises_itself,
}


@pytest.mark.parametrize("what", OF_NONE)
def test_a_way_without_a_loss_ends_the_run(what: str, tmp_path: pathlib.Path) -> None:
    def body(m: Model, x: Tensor) -> Any:
        losses = [m.first(x).sum()] if (x[:, 0] > 0).any() else []
        return OF_NONE[what](losses)

    step = step_of(body)
    exported = export(step, tmp_path)
    compare(step, exported, batch("both"))
    text = r"test_decisions.py:\d+: by what values decide here, " + what
    with pytest.raises(RuntimeError, match=text):
        compare(step, exported, batch("negative"))


def test_a_count_is_not_more_than_there_are(tmp_path: pathlib.Path) -> None:
    """What a mask holds for is no more than all, so that nothing decides by it. The other way, on which as
    many rows are written as there are, would end in an error."""

    def body(m: Model, x: Tensor) -> Tensor:
        h, mask = m.first(x), x[:, 0] > 0
        n = mask.sum().item()
        if n > len(x):
            mask, n = torch.zeros_like(mask), len(x)
        rows = torch.zeros_like(h)
        rows[mask] = h.detach()[:n]
        return head(m, h + rows)

    step = step_of(body)
    exported = export(step, tmp_path)
    assert not any("decides by values" in text for text in exported.notes)
    for name in BATCHES:
        compare(step, exported, batch(name))


def test_what_earlier_answers_settle_is_not_asked(tmp_path: pathlib.Path) -> None:
    """As in a library that asks in several places how many pairs there are: a way on which there are
    two and none would end in an error."""

    def body(m: Model, x: Tensor) -> Tensor:
        h, rows = m.first(x), torch.where(x[:, 0] > 0)[0]
        if len(rows) <= 1:
            return head(m, h)
        assert len(rows) > 0 and rows.numel() != 1 and not h[rows].numel() < 2 * WIDTH
        return head(m, h[rows])

    step = step_of(body)
    exported = export(step, tmp_path)
    for name in BATCHES:
        compare(step, exported, batch(name))


def repeats(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    while h.sum() > 1:
        h = h / 2
    return head(m, h)


def decides_often(m: Model, x: Tensor) -> Tensor:
    h = m.first(x)
    for step in range(5):
        if h.sum() > step:
            h = h.tanh()
    return head(m, h)


def gives_another_shape(m: Model, x: Tensor) -> Tensor:
    return m.first(x).sum() if x[0, 0] > 0 else m.first(x).double().sum()


def has_no_gradient_on_either_way(m: Model, x: Tensor) -> Tensor:
    return m.first(x).detach().sum() if x[0, 0] > 0 else torch.zeros(())


REFUSED = {
    repeats: "the step repeats a loop as often as values say; let it run as often",
    decides_often: "the step decides by values so often that there are more than 16 ways through it",
    gives_another_shape: "values decide whether the step gives float32 .* and float64 of shape",
    has_no_gradient_on_either_way: "the loss has no gradient, of which",
}


@pytest.mark.provokes("FSDP-E0205", "FSDP-E0206")
@pytest.mark.parametrize("body", REFUSED)
def test_refusals(tmp_path: pathlib.Path, body: Callable[..., Tensor]) -> None:
    with pytest.raises(ExportError, match=rf"^test_decisions.py:\d+: {REFUSED[body]}"):
        export(step_of(body), tmp_path)


def test_a_folder_of_pytorchs_own_is_not_what_the_step_saves(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch makes one when it first imports what it differentiates with."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "made"))
    monkeypatch.delitem(sys.modules, "torch._inductor.compiler_bisector", raising=False)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = model(x)
        return F.cross_entropy(logits.relu() if logits.sum() > 0 else logits, y)

    notes = export(classify(nn.Linear(8, 3), loss=loss), tmp_path).notes
    assert notes and not any("no plan saves" in text for text in notes)

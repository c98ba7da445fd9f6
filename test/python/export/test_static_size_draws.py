"""Tests of random numbers that are drawn for as many elements as a mask holds for."""

import pathlib
from typing import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from exporting import export
from selected_rows import MASKS, ROWS, WIDTH, Model, batch, compare, step_of
from torch import Tensor


def test_random_numbers_of_a_selection_are_said_to_differ(tmp_path: pathlib.Path) -> None:
    step = step_of(lambda s, x, m, y: F.dropout(s.layer(x[m]), 0.5).sum())
    (note,) = export(step, tmp_path).notes
    assert "random numbers are drawn for as many elements as there can be" in note


def losses(body: Callable[..., Tensor], folder: pathlib.Path) -> Iterator[tuple[str, Tensor]]:
    """The loss with each mask, of a step that has eager's numbers where the mask holds for all."""
    step = step_of(body)
    exported = export(step, folder)
    torch.manual_seed(5)  # as the exported step is run
    compare(step, exported, batch("all"))
    for mask in MASKS:
        exported.weights["fsdp.input.m"] = batch(mask)["m"]
        yield mask, exported.run()["loss", ""]


def test_draws_for_as_many_as_a_mask_holds_for(tmp_path: pathlib.Path) -> None:
    """As of codes that no sample is near to: some sample takes the place of each. Eager draws the
    same where the mask holds for all."""

    def replaced(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
        codes, samples = torch.zeros_like(x), model.layer(torch.arange(24.0).view(ROWS, WIDTH))
        dead = int(m.sum())
        codes[m] = samples[torch.randint(0, ROWS, (dead,))] + samples[torch.randperm(ROWS)[:dead]]
        places = m.nonzero().flatten()[torch.randperm(dead)]
        return (codes[places] * torch.arange(1, dead + 1)[:, None]).square().sum()

    for mask, loss in losses(replaced, tmp_path):
        assert (loss > 0) == (mask != "none")


@pytest.mark.parametrize(
    "drawn",
    [
        lambda h: torch.zeros_like(h).uniform_(0.5, 1),
        lambda h: torch.empty_like(h).normal_(1, 2),
        lambda h: torch.empty_like(h).log_normal_(),
        lambda h: torch.empty_like(h).cauchy_(),
        lambda h: torch.empty_like(h).geometric_(0.5),
        lambda h: torch.normal(h.detach(), 1 / h.detach().abs()),
        lambda h: torch.bernoulli(1 / (1 + h.detach().abs())),
        lambda h: torch.empty_like(h).bernoulli_(1 / h.detach().abs().clamp_min(1)),
        lambda h: F.gumbel_softmax(h, hard=True),  # by exponential_
    ],
)
def test_draws_for_each_element(tmp_path: pathlib.Path, drawn: Callable[[Tensor], Tensor]) -> None:
    """Eager draws the same where the mask holds for all."""

    def body(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
        h = model.layer(x[m])
        return (h * drawn(h)).sum()

    for _, loss in losses(body, tmp_path):
        assert loss.isfinite()


def test_draws_of_what_counts(tmp_path: pathlib.Path) -> None:
    """Tests an order of as many as a mask holds for, which has each of them once, and places below
    that number."""

    def ordered(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
        kept = m.nonzero().flatten()
        order = torch.randperm(len(kept))
        some = kept[torch.randint(len(kept), (100,))]
        found = F.one_hot(some, ROWS).amax(0).bool()
        return model.layer.bias.sum() + (2**order).sum() + 100 * (found == m).all()

    step = step_of(ordered)
    exported = export(step, tmp_path)
    for mask in MASKS.keys() - {"none"}:
        exported.weights["fsdp.input.m"] = batch(mask)["m"]
        wanted = step.model.layer.bias.detach().sum() + 2 ** sum(MASKS[mask]) - 1 + 100
        torch.testing.assert_close(exported.run()["loss", ""], wanted)
    exported.weights["fsdp.input.m"] = batch("none")["m"]
    with pytest.raises(RuntimeError, match=r"draws.py:\d+: randint has no number to draw from"):
        exported.run()

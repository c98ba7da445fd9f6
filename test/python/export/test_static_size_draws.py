"""Tests of random numbers that are drawn for as many elements as a mask holds for."""

import pathlib

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


def test_draws_for_as_many_as_a_mask_holds_for(tmp_path: pathlib.Path) -> None:
    """As of codes that no sample is near to: some sample takes the place of each. Eager draws the
    same where the mask holds for all."""

    def replaced(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
        codes, samples = torch.zeros_like(x), model.layer(torch.arange(24.0).view(ROWS, WIDTH))
        dead = int(m.sum())
        codes[m] = samples[torch.randint(0, ROWS, (dead,))] + samples[torch.randperm(ROWS)[:dead]]
        places = m.nonzero().flatten()[torch.randperm(dead)]
        return (codes[places] * torch.arange(1, dead + 1)[:, None]).square().sum()

    step = step_of(replaced)
    exported = export(step, tmp_path)
    torch.manual_seed(5)  # as the exported step is run
    compare(step, exported, batch("all"))
    for mask in MASKS:
        exported.weights["fsdp.input.m"] = batch(mask)["m"]
        assert (exported.run()["loss", ""] > 0) == (mask != "none")


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

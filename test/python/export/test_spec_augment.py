"""Tests that the spans which speech models of transformers hide are drawn by torch, as often as
transformers draws them by NumPy."""

from __future__ import annotations

import pathlib
import sys
import types
from typing import Any

import numpy
import pytest
import torch
from exporting import assert_same_as_eager, classify
from torch import nn

from fsdp_mlir.capture.operators.spec_augment import draw_spans, spans_by_torch

LENGTH, SPAN = 40, 5


def lengths_of_spans(row: torch.Tensor) -> list[int]:
    """How long each run of hidden places is."""
    runs = "".join("x" if hidden else " " for hidden in row.tolist()).split()
    return [len(run) for run in runs]


def test_one_span_of_its_length_inside_each_row() -> None:
    torch.manual_seed(0)
    lengths = torch.randint(SPAN, LENGTH + 1, (300, 1))
    hidden = draw_spans((300, LENGTH), 1e-9, SPAN, torch.arange(LENGTH) < lengths, min_masks=1)
    assert all(lengths_of_spans(row) == [SPAN] for row in hidden)
    assert not (hidden & (torch.arange(LENGTH) >= lengths)).any()
    assert hidden[:, 0].any()  # the ends too
    assert (hidden[torch.arange(300), lengths[:, 0] - 1]).any()


def test_rows_that_no_span_fits_into_hide_nothing() -> None:
    lengths = torch.tensor([[SPAN - 1], [LENGTH]])
    hidden = draw_spans((2, LENGTH), 0.5, SPAN, torch.arange(LENGTH) < lengths, min_masks=2)
    assert not hidden[0].any() and hidden[1].any()


def test_no_more_spans_than_there_is_room_for() -> None:
    hidden = draw_spans((2, 2 * SPAN), 0.1, SPAN, None, min_masks=100)
    assert (hidden.sum(-1) <= 2 * SPAN).all() and (hidden.sum(-1) >= SPAN + 1).all()


def test_spans_longer_than_a_row() -> None:
    with pytest.raises(ValueError, match="spans of 5 elements do not fit into a row of 4"):
        draw_spans((2, 4), 0.1, SPAN)


@pytest.mark.parametrize("probability, least", [(0.3, 0), (0.07, 2)])
def test_places_are_hidden_as_often_as_by_transformers(probability: float, least: int) -> None:
    modeling = pytest.importorskip("transformers.models.wav2vec2.modeling_wav2vec2")
    torch.manual_seed(0)
    numpy.random.seed(0)
    attention = torch.arange(LENGTH) < torch.tensor([[LENGTH], [25]])
    given = ((2, LENGTH), probability, SPAN, attention.long(), least)
    draws = 1500
    theirs = sum(modeling._compute_mask_indices(*given).astype(float) for _ in range(draws))
    ours = sum(draw_spans(*given).double().numpy() for _ in range(draws))
    assert abs(ours - theirs).max() / draws < 0.06


def test_a_model_of_transformers_is_captured(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_numpy(shape: tuple[int, int], *args: Any, **kwargs: Any) -> numpy.ndarray:
        return numpy.random.rand(*shape) < 0.5

    library = types.ModuleType("transformers.models.hides")
    library._compute_mask_indices = by_numpy
    monkeypatch.setitem(sys.modules, library.__name__, library)

    class Hides(nn.Linear):
        config = types.SimpleNamespace(mask_time_prob=0.4, mask_feature_prob=0.0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = library._compute_mask_indices(tuple(x.shape), 0.4, mask_length=3)
            hidden = torch.tensor(hidden, device=x.device, dtype=torch.bool)
            x = x.clone()
            x[hidden] = 0
            return super().forward(x)

    model = Hides(8, 3)
    model.config = Hides.config
    with spans_by_torch(nn.Linear(1, 1)):  # as eager must draw them, to be compared
        exported = assert_same_as_eager(classify(model), tmp_path)
    assert [note for note in exported.notes if "SpecAugment is drawn by torch" in note]
    assert library._compute_mask_indices is by_numpy

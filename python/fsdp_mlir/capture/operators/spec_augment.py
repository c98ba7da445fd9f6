"""SpecAugment of Hugging Face's speech models, drawn by torch: spans of time and of features that
training hides from a model."""

from __future__ import annotations

import contextlib
import sys
from typing import Iterator, Optional
from unittest import mock

import torch

from ...errors import note

_NAME = "_compute_mask_indices"


@contextlib.contextmanager
def spans_by_torch(model: torch.nn.Module) -> Iterator[None]:
    """Within it, models of transformers draw the spans that they hide by torch, where they would do
    it by NumPy, of which each exported step would get the same. A note says so."""
    if any(map(_hides_spans, model.modules())):
        note(
            "SpecAugment is drawn by torch where transformers draws it by NumPy: as many spans, at "
            "other places than eager's"
        )
    with contextlib.ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("transformers.models.") and _NAME in vars(module):
                stack.enter_context(mock.patch.object(module, _NAME, draw_spans))
        yield


def _hides_spans(module: torch.nn.Module) -> bool:
    config = vars(module).get("config")
    probabilities = (getattr(config, f"mask_{axis}_prob", 0) for axis in ("time", "feature"))
    return module.training and getattr(config, "apply_spec_augment", True) and any(probabilities)


def draw_spans(
    shape: tuple[int, int],
    mask_prob: float,
    mask_length: int,
    attention_mask: Optional[torch.Tensor] = None,
    min_masks: int = 0,
) -> torch.Tensor:
    """`_compute_mask_indices` of transformers: where spans of `mask_length` elements are, a mask of
    `shape`. They begin at different places, as many in each row as its length and chance say."""
    rows, length = shape
    if not 1 <= mask_length <= length:
        raise ValueError(f"spans of {mask_length} elements do not fit into a row of {length}")
    if attention_mask is None:
        lengths = torch.full((rows, 1), length)
    else:
        lengths = attention_mask.detach().sum(-1, keepdim=True).long()
    begins = (lengths - (mask_length - 1)).clamp(min=0)  # how many places a span can begin at
    # Rounded up as often as the rest says; all rows by the same chance.
    wanted = (mask_prob * lengths / mask_length + torch.rand(1, dtype=torch.float64)).long()
    spans = torch.minimum(wanted.clamp(min_masks, length // mask_length), begins)
    places = torch.arange(length)
    scores = torch.rand(rows, length).masked_fill(places >= begins, 2.0)
    first = scores.argsort(-1).argsort(-1) < spans
    behind = first.cumsum(-1)
    return behind > torch.nn.functional.pad(behind, (mask_length, 0))[:, :length]

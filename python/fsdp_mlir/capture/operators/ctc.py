"""Captures CTC losses with static shapes.

PyTorch's kernel makes its table as long as the longest target of the batch. Where the code gives
the lengths, they are numbers of the graph, and the kernel is eager's. Where they are data, the
table is as long as targets can be, and matrix operations fill it: eager's loss up to rounding.
"""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.nn import functional as F

from ...errors import E, ExportError
from ..graph.known_values import known_numbers

_MEAN, _SUM = 1, 2


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    blank: int = 0,
    reduction: int = _MEAN,
    zero_infinity: bool = False,
) -> torch.Tensor:
    """`aten::ctc_loss.Tensor`.

    Args:
        log_probs: [steps, samples, classes], or [steps, classes] of one sample.
        targets: [samples, longest]; concatenated ones only where lengths are known.
    """
    try:
        lengths = known_numbers(input_lengths), known_numbers(target_lengths)
    except DataDependentOutputException:
        return _padded(
            log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity
        )
    op = torch.ops.aten._ctc_loss.default
    loss, _ = op(log_probs, targets, *lengths, blank, zero_infinity)
    if zero_infinity:
        loss = torch.where(loss == torch.inf, torch.zeros((), dtype=loss.dtype), loss)
    return _reduced(loss, torch.tensor(lengths[1], dtype=loss.dtype), reduction)


def _reduced(loss: torch.Tensor, lengths: torch.Tensor, reduction: int) -> torch.Tensor:
    if reduction == _MEAN:
        return (loss / lengths.clamp_min(1)).mean()
    return loss.sum() if reduction == _SUM else loss


def loss_and_table(
    mode: Any,
    op: Any,
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `aten::_ctc_loss` gives for lengths that are numbers, without values. PyTorch takes its
    sizes to depend on data, as they do where lengths are tensors."""
    steps = log_probs.shape[0]
    batch = log_probs.shape[1:-1]
    return log_probs.new_empty(batch), log_probs.new_empty(
        (*batch, steps, 2 * max(target_lengths) + 1)
    )


def table_backward(
    mode: Any, op: Any, grad_output: Any, log_probs: torch.Tensor, *rest: Any
) -> Any:
    """What `aten::_ctc_loss_backward` gives, without values."""
    return log_probs.new_empty(log_probs.shape)


def _padded(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> torch.Tensor:
    """The forward algorithm over all steps and the longest possible target."""
    if log_probs.dim() != 3 or targets.dim() != 2:
        raise ExportError(
            E.VALUE_DEPENDENT,
            "the lengths of a CTC loss depend on data, and its targets are concatenated, whose "
            "number would too; give targets as [samples, longest], padded",
        )
    steps, samples, _ = log_probs.shape
    # Blanks around each label.
    labels = torch.full_like(targets, blank)
    labels = torch.stack((labels, targets.clamp(0, log_probs.shape[2] - 1)), 2).flatten(1)
    labels = F.pad(labels, (0, 1), value=blank)
    scores = log_probs.gather(2, labels.expand(steps, *labels.shape))
    never = torch.finfo(log_probs.dtype).min / 4
    places = torch.arange(labels.shape[1])
    repeated = F.pad(labels[:, 2:] == labels[:, :-2], (2, 0), value=True)
    row = torch.where(places < 2, scores[0], never)
    sums = [row]
    for step in range(1, steps):
        one = F.pad(row[:, :-1], (1, 0), value=never)
        two = torch.where(repeated, never, F.pad(row[:, :-2], (2, 0), value=never))
        row = torch.logsumexp(torch.stack((row, one, two)), 0) + scores[step]
        row = row.clamp(min=never)
        sums.append(row)
    last = torch.stack(sums)[(input_lengths - 1).clamp(min=0), torch.arange(samples)]
    ends = 2 * target_lengths
    end = last.gather(1, ends[:, None]).squeeze(1)
    before = last.gather(1, (ends - 1).clamp(min=0)[:, None]).squeeze(1)
    loss = -torch.where(ends > 0, torch.logaddexp(end, before), end)
    loss = loss + _gradient_of_softmax(log_probs, input_lengths)
    impossible = loss > -never / 2
    loss = torch.where(impossible, 0.0 if zero_infinity else torch.inf, loss)
    return _reduced(loss, target_lengths, reduction)


def _gradient_of_softmax(log_probs: torch.Tensor, input_lengths: torch.Tensor) -> torch.Tensor:
    """Zeros, [samples], whose gradient by `log_probs` is the probabilities. PyTorch's backward adds
    them: a log_softmax before the loss leaves the sum as it is, and other code sees it."""
    none = torch.where(log_probs == -torch.inf, 0.0, log_probs - log_probs.detach())
    counts = torch.arange(log_probs.shape[0])[:, None] < input_lengths
    return (torch.where(counts[..., None], log_probs.detach().exp(), 0.0) * none).sum((0, 2))

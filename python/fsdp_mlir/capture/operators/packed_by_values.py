"""Packed sequences whose lengths are data.

Their layers go through as many steps as there can be, with all samples in each. A mask says for which
of them a step counts: for the others the state stays what it was. So the shapes are static, and only
who looks into the packed data itself meets a size that depends on values.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional, Sequence

import sympy
import torch
from torch._decomp import decompositions
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

from ...errors import note
from ..graph.known_values import know_first
from ..padding.static_form import with_remedy

_TOTAL_LENGTH = (
    "give pad_packed_sequence a total_length, the length of the padded batch: else the longest "
    "sequence is the size"
)
_assert = torch.ops.aten._functional_assert_async.msg


class PackedByValues:
    """Those of one capture: by the batch sizes of each which steps count, and by its packed data the
    tensor that this was taken from."""

    def __init__(self) -> None:
        self._counted = WeakTensorKeyDictionary()  # [steps, samples]
        self._padded = WeakTensorKeyDictionary()  # [steps, samples, ...]
        # By the number of steps of the longest sequence, a symbol: how many steps there can be.
        self._most: dict[sympy.Expr, int] = {}

    def __contains__(self, batch_sizes: torch.Tensor) -> bool:
        """Whether they are those of such a sequence."""
        return batch_sizes in self._counted

    def pack(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The data and the batch sizes of `x`, [steps, samples, ...], whose samples have `lengths`.

        Raises:
            DataDependentOutputException: the capture knows no sizes that depend on values.
        """
        steps, samples = x.shape[:2]
        if isinstance(steps, torch.SymInt) and steps.node.expr in self._most:
            behind = self._most[steps.node.expr] - steps
            x = torch.constant_pad_nd(x, [*[0] * (2 * (x.dim() - 1)), 0, behind])
        most = x.shape[0]
        falling = (lengths[1:] <= lengths[:-1]).all()
        fit = falling & (lengths[0] <= steps) & (lengths[-1] >= 1)
        text = f"the lengths of a packed sequence do not fall from at most {most} to at least 1"
        lengths = _assert(fit, text, lengths)
        counted = torch.arange(most)[:, None] < lengths
        sizes = counted.sum(1)
        with with_remedy(_TOTAL_LENGTH):
            batch_sizes = sizes[sizes > 0]
        know_first(batch_sizes, samples)
        self._counted[batch_sizes] = counted
        return self._packed(x, batch_sizes), batch_sizes

    def unpack(
        self,
        data: torch.Tensor,
        batch_sizes: torch.Tensor,
        padding_value: float,
        total_length: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The tensor that `data` is packed of, [steps, samples, ...], with `padding_value` behind the
        end of each sample, and the lengths. Of no `total_length` it is as long as the longest."""
        counted = self._counted[batch_sizes]
        steps = len(counted)
        if 0 < total_length < steps:
            text = f"total_length {total_length} is less than the length of a sequence"
            counted = _assert(~counted[total_length].any(), text, counted)
        x = torch.where(_over(counted, data), self._unpacked(data, batch_sizes), padding_value)
        if total_length <= 0:
            longest = batch_sizes.shape[0]
            self._most[longest.node.expr] = steps
            return x[:longest], counted.sum(0)
        rest = [0] * (2 * (x.dim() - 1))
        x = torch.constant_pad_nd(x, [*rest, 0, total_length - steps], padding_value)
        return x, counted.sum(0)

    def layers(
        self,
        layers: Callable[..., tuple[torch.Tensor, Any]],
        data: torch.Tensor,
        *options: Any,
        layer_fn: functools.partial[Any],
    ) -> tuple[torch.Tensor, Any]:
        """What recurrent layers give for `data`, packed, and the states that they end with.

        `layers(x, *options, layer_fn)` computes them of samples of one length, a layer at a time by
        `layer_fn`, which here is PyTorch's function for packed sequences.
        """
        _, _, _, _, dropout, train, *_ = options
        if dropout and train:
            note(
                "random numbers of a dropout between layers are drawn for as many elements as a packed "
                "sequence can have, where eager draws as many as it has: others than eager's"
            )
        batch_sizes = layer_fn.keywords["batch_sizes"]
        counted = self._counted[batch_sizes]
        # What padding holds, NaN too, is multiplied by the zeros that are its gradients.
        x = torch.where(_over(counted, data), self._unpacked(data, batch_sizes), 0.0)
        x, last = layers(x, *options, layer_fn=functools.partial(_layer, counted, layer_fn))
        return self._packed(x, batch_sizes), last

    def _packed(self, x: torch.Tensor, batch_sizes: torch.Tensor) -> torch.Tensor:
        data = x[self._counted[batch_sizes]]
        self._padded[data] = x
        return data

    def _unpacked(self, data: torch.Tensor, batch_sizes: torch.Tensor) -> torch.Tensor:
        """[steps, samples, ...], of which what does not count may be anything."""
        if data in self._padded:
            return self._padded[data]
        counted = self._counted[batch_sizes]
        places = counted.flatten().cumsum(0).sub(1).clamp_min(0)
        return data[places].unflatten(0, counted.shape)


def _over(counted: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """A mask of steps and samples for what has the dimensions of `data` behind them."""
    return counted.view(*counted.shape, *[1] * (data.dim() - 1))


def _layer(
    counted: torch.Tensor,
    packed: functools.partial[Any],
    x: torch.Tensor,
    begin: Any,
    params: Sequence[torch.Tensor],
    has_biases: bool,
    reverse: bool = False,
) -> tuple[torch.Tensor, Any]:
    """One layer, in one direction: its output of each step, and the state of each sample's last."""
    is_lstm = packed.func is decompositions.one_layer_lstm_data
    cell = _lstm_cell if is_lstm else packed.keywords["hidden_fn"]
    weights = params if has_biases else (*params[:2], None, None, *params[2:])
    state = begin if is_lstm else (begin,)
    outputs: list[Any] = [None] * len(counted)
    for step in reversed(range(len(counted))) if reverse else range(len(counted)):
        input_weight, hidden_weight, input_bias, hidden_bias, *projection = weights
        then = cell(
            x[step], *state, input_weight, input_bias, hidden_weight, hidden_bias, *projection
        )
        counts = counted[step, :, None]
        then = then if is_lstm else (then,)
        state = tuple(torch.where(counts, new, old) for new, old in zip(then, state))
        outputs[step] = state[0]
    return torch.stack(outputs), state if is_lstm else state[0]


def _lstm_cell(
    x: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    input_weight: torch.Tensor,
    input_bias: Optional[torch.Tensor],
    hidden_weight: torch.Tensor,
    hidden_bias: Optional[torch.Tensor],
    projection: Optional[torch.Tensor] = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    gates = F.linear(x, input_weight, input_bias)
    return decompositions.lstm_cell(
        gates, hidden, cell, hidden_weight, hidden_bias, projection, chunk_dim=1
    )

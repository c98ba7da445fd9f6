"""Captures recurrent layers, and what comes of sequences of several lengths, with static shapes.

Of recurrent layers PyTorch has definitions in Python, which are taken while a graph is captured.
They are mended here where they are not what eager mode does.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from typing import Any, Callable, Iterator, Sequence
from unittest import mock

import torch
from torch._decomp import decompositions
from torch._subclasses.fake_impls import op_implementations_dict
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.nn.utils import rnn

from ..graph.known_values import known_numbers
from .ctc import ctc_loss, loss_and_table, table_backward
from .eager_kernels import defined_as
from .packed_by_values import PackedByValues


def _layers(
    input: torch.Tensor,
    hidden: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    layer_fn: Callable[..., tuple[torch.Tensor, Any]],
) -> tuple[torch.Tensor, list[Any]]:
    """Layers over each other, with dropout between them, which PyTorch's own function leaves out.

    The arguments are those of `decompositions._rnn_helper`.
    """
    x = input.transpose(0, 1) if batch_first else input
    last: list[Any] = []
    for i in range(num_layers):
        ways = decompositions.params_hiddens(params, hidden, i, bidirectional)
        own_params, own_hidden, back_params, back_hidden = ways
        out, state = layer_fn(x, own_hidden, own_params, has_biases)
        last.append(state)
        if bidirectional:
            back, state = layer_fn(x, back_hidden, back_params, has_biases, reverse=True)
            last.append(state)
            out = torch.cat([out, back], out.dim() - 1)
        x = out
        if dropout != 0 and train and i < num_layers - 1:
            x = torch.dropout(x, dropout, train=True)
    return x.transpose(0, 1) if batch_first else x, last


def _lstm_layer(
    input: torch.Tensor, begin: Sequence[torch.Tensor], *args: Any, **options: Any
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """A layer of an LSTM, which ends with states of the shape that it begins with: PyTorch's
    definition leaves a dimension of size 1 in front of them, unless the batch has one sample."""
    out, last = decompositions.one_layer_lstm(input, begin, *args, **options)
    return out, tuple(state.view_as(first) for state, first in zip(last, begin))


def _by_products(*args: Any) -> Callable[..., Any]:
    """Which function computes a layer of an LSTM: the matrix products that it is on every device.
    On the CPU PyTorch's choice is one kernel of oneDNN's, with memory of its own kind."""
    return _lstm_layer


def _runs(batch_sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Of a packed sequence: how many steps have how many samples."""
    for samples, steps in itertools.groupby(batch_sizes):
        yield len(list(steps)), samples


def _pack(
    by_values: PackedByValues, input: torch.Tensor, lengths: torch.Tensor, batch_first: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """`aten::_pack_padded_sequence`."""
    x = input.transpose(0, 1) if batch_first else input
    torch._check(
        len(lengths) == x.shape[1], lambda: f"{len(lengths)} lengths of {x.shape[1]} sequences"
    )
    try:
        counts = known_numbers(lengths)
    except DataDependentOutputException:
        return by_values.pack(x, lengths)
    torch._check(
        counts == sorted(counts, reverse=True) and 0 < counts[-1] and counts[0] <= x.shape[0],
        lambda: f"lengths {counts}: they fall from at most {x.shape[0]} to at least 1",
    )
    batch_sizes = [sum(count > step for count in counts) for step in range(counts[0])]
    parts, start = [], 0
    for steps, samples in _runs(batch_sizes):
        parts.append(x[start : start + steps, :samples].flatten(0, 1))
        start += steps
    return torch.cat(parts), torch.tensor(batch_sizes)


def _unpack(
    by_values: PackedByValues,
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    batch_first: bool,
    padding_value: float,
    total_length: int = -1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`aten::_pad_packed_sequence`."""
    if batch_sizes in by_values:
        x, lengths = by_values.unpack(data, batch_sizes, padding_value, total_length)
    else:
        x, lengths = _unpack_known(data, known_numbers(batch_sizes), padding_value, total_length)
    return x.transpose(0, 1) if batch_first else x, lengths


class _Functions:
    """PyTorch's functions, with a `_pad_packed_sequence` that takes a length which depends on values,
    as the operator's schema does not."""

    def __init__(self, by_values: PackedByValues) -> None:
        self._by_values = by_values

    def __getattr__(self, name: str) -> Any:
        return getattr(torch._VF, name)

    def _pad_packed_sequence(
        self, data: Any, batch_sizes: Any, batch_first: bool, padding_value: float, length: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if isinstance(length, torch.SymInt):  # that of the longest sequence
            return _unpack(self._by_values, data, batch_sizes, batch_first, padding_value)
        return torch._VF._pad_packed_sequence(data, batch_sizes, batch_first, padding_value, length)


def _unpack_known(
    data: torch.Tensor, sizes: Sequence[int], padding_value: float, total_length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of lengths that are the code's own: the tensor, [steps, samples, ...], and the lengths."""
    parts, start, rest = [], 0, [0] * (2 * (data.dim() - 1))
    for steps, samples in _runs(sizes):
        part = data[start : start + steps * samples].unflatten(0, (steps, samples))
        parts.append(torch.constant_pad_nd(part, [*rest, 0, sizes[0] - samples], padding_value))
        start += steps * samples
    x = torch.cat(parts)
    torch._check(
        total_length <= 0 or total_length >= len(sizes),
        lambda: f"total_length {total_length} is less than the length {len(sizes)} of a sequence",
    )
    if total_length > len(sizes):
        x = torch.constant_pad_nd(x, [*rest, 0, 0, 0, total_length - len(sizes)], padding_value)
    return x, torch.tensor([sum(size > i for size in sizes) for i in range(sizes[0])])


def _any_layers(by_values: PackedByValues, input: torch.Tensor, *options: Any) -> Any:
    """`decompositions._rnn_helper`, of packed sequences too."""
    *options, layer_fn = options
    batch_sizes = getattr(layer_fn, "keywords", {}).get("batch_sizes")
    if batch_sizes is not None and batch_sizes in by_values:
        return by_values.layers(_layers, input, *options, layer_fn=layer_fn)
    return _layers(input, *options, layer_fn=layer_fn)


# Operators whose results PyTorch says nothing of.
_SIZES = {
    torch.ops.aten._ctc_loss.default: loss_and_table,
    torch.ops.aten._ctc_loss_backward.default: table_backward,
}


@contextlib.contextmanager
def static_sequences() -> Iterator[None]:
    """Within it, recurrent layers, packed sequences and CTC losses are captured so."""
    by_values = PackedByValues()
    operators = {
        torch.ops.aten.ctc_loss.Tensor: ctc_loss,
        torch.ops.aten._pack_padded_sequence.default: functools.partial(_pack, by_values),
        torch.ops.aten._pad_packed_sequence.default: functools.partial(_unpack, by_values),
    }
    with (
        defined_as(operators),
        mock.patch.object(decompositions, "_rnn_helper", functools.partial(_any_layers, by_values)),
        mock.patch.object(rnn, "_VF", _Functions(by_values)),
        mock.patch.dict(op_implementations_dict, _SIZES),
        mock.patch.object(decompositions, "select_one_layer_lstm_function", _by_products),
    ):
        yield

"""Tests that recurrent layers, packed sequences and CTC losses are captured as eager computes them."""

import pathlib
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, export
from torch import nn
from torch.nn.utils import rnn

from fsdp_mlir.errors import ExportError

LENGTHS = [3, 5, 5, 2]
INPUTS = {
    "x": torch.randn(4, 5, 8, generator=torch.Generator().manual_seed(1)),
    "y": torch.tensor([0, 2, 1, 0]),
}


# Eager computes a GRU's gates in place, row by row, in a part of a larger tensor. What does not
# fill two vectors of a processor is rounded otherwise; these rows do, of AVX-512 as well.
HIDDEN = 32


class Recurrent(nn.Module):
    """Two layers both ways with dropout between them, of padded or of packed sequences."""

    def __init__(self, layer: type[nn.RNNBase], packed: bool) -> None:
        super().__init__()
        self.layers = layer(8, HIDDEN, 2, dropout=0.3, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * HIDDEN, 3)
        self.packed = packed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.packed:
            return self.head(self.layers(x)[0][:, -1])
        packed = rnn.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
        out, lengths = rnn.pad_packed_sequence(self.layers(packed)[0], True, -0.5, total_length=6)
        return self.head(out.sum(1) / lengths[:, None])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(tmp_path: pathlib.Path, layer: type[nn.RNNBase], packed: bool) -> None:
    """An LSTM as the matrix products of every device, not oneDNN's one kernel for it."""
    torch.manual_seed(0)
    step = classify(Recurrent(layer, packed), inputs=INPUTS)
    exported = export(step, tmp_path)
    assert not [op for op in exported.ops() if "mkldnn" in op or "packed" in op]
    assert exported.ops().count("aten::bernoulli") == 1
    assert exported.warnings == []
    with torch.backends.mkldnn.flags(enabled=False):
        if not packed:
            assert_same_as_eager(step, tmp_path)
            return
        # Eager multiplies all steps' inputs at once: another order of sums.
        results = exported.run()
        torch.manual_seed(5)
        loss = step.loss(step.model, **step.inputs)
        loss.backward()
    torch.testing.assert_close(results["loss", ""], loss.detach())
    for name, parameter in step.model.named_parameters():
        torch.testing.assert_close(results["gradient", name], parameter.grad)


class LastState(nn.Module):
    """Begins with a state that is given, and reads those that the layers end with."""

    def __init__(self, layer: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layers = layer(8, HIDDEN, 2, batch_first=True)
        self.register_buffer("begin", torch.linspace(-1, 1, 8 * HIDDEN).view(2, 4, HIDDEN))
        self.head = nn.Linear(2 * HIDDEN * (2 if layer is nn.LSTM else 1), 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        begin = (self.begin, 2 * self.begin) if isinstance(self.layers, nn.LSTM) else self.begin
        last = self.layers(x, begin)[1]
        states = torch.cat(last, -1) if isinstance(last, tuple) else last
        return self.head(states.transpose(0, 1).flatten(1))


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_last_states_of_recurrent_layers(tmp_path: pathlib.Path, layer: type[nn.RNNBase]) -> None:
    """PyTorch's definition of an LSTM in Python gives them a dimension too many."""
    torch.manual_seed(0)
    with torch.backends.mkldnn.flags(enabled=False):
        assert_same_as_eager(classify(LastState(layer), inputs=INPUTS), tmp_path)


class ByLengths(nn.Module):
    """Layers over sequences of the batch's lengths as `read`, unpacked by `unpack`."""

    def __init__(
        self, layer: type[nn.RNNBase], unpack: Any, read: Any = lambda n: n, **options: Any
    ) -> None:
        super().__init__()
        self.read = read
        self.layers = layer(8, 16, batch_first=True, bidirectional=True, **options)
        self.head = nn.Linear(2 * options.get("proj_size", 16), 3)
        self.unpack = unpack

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        lengths = self.read(lengths)
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.unpack(*self.layers(packed)))


def last_states(out: rnn.PackedSequence, last: Any) -> torch.Tensor:
    hidden = last[0] if isinstance(last, tuple) else last
    return torch.cat([hidden[-2], hidden[-1]], -1)


def mean_up_to(total_length: Any) -> Any:
    def unpack(out: rnn.PackedSequence, last: Any) -> torch.Tensor:
        padded, lengths = rnn.pad_packed_sequence(out, True, -0.5, total_length)
        return padded.sum(1) / lengths[:, None]

    return unpack


def mean_of_changed(out: rnn.PackedSequence, last: Any) -> torch.Tensor:
    return mean_up_to(None)(out._replace(data=out.data.square()), last)


def mixed_in_each_step(out: rnn.PackedSequence, last: Any) -> torch.Tensor:
    return F.linear(rnn.pad_packed_sequence(out, True)[0], torch.ones(32, 32)).sum(1)


def median_of_steps(out: rnn.PackedSequence, last: Any) -> torch.Tensor:
    return rnn.pad_packed_sequence(out, True)[0].median(1).values


def packed_again(out: rnn.PackedSequence, last: Any) -> torch.Tensor:
    """As of Deep Speech 2: what comes between two layers reads padded sequences."""
    padded, lengths = rnn.pad_packed_sequence(out, True)
    rows, moments = padded.flatten(0, 1), (torch.zeros(32), torch.ones(32))
    normal = F.batch_norm(rows, *moments, training=True).view(4, -1, 32)
    again = rnn.pack_padded_sequence(normal.tanh(), lengths, True, enforce_sorted=False)
    layer = nn.GRU(32, 32, batch_first=True)
    weights = {name: torch.full_like(p, 0.05) for name, p in layer.named_parameters()}
    out, _ = torch.func.functional_call(layer, weights, (again,))
    return rnn.pad_packed_sequence(out, True)[0].sum(1)


def packed_by_lengths(layer: type[nn.RNNBase], unpack: Any, **options: Any) -> Any:
    def loss(
        model: nn.Module, x: torch.Tensor, lengths: torch.Tensor, y: torch.Tensor
    ) -> torch.Tensor:
        return F.cross_entropy(model(x, lengths), y)

    torch.manual_seed(0)
    lengths = torch.tensor([3, 4, 4, 1])
    x = INPUTS["x"].masked_fill(torch.arange(5)[:, None] >= lengths[:, None, None], torch.nan)
    inputs = {**INPUTS, "x": x, "lengths": lengths}
    return classify(ByLengths(layer, unpack, **options), inputs=inputs, loss=loss)


def from_an_array(lengths: torch.Tensor) -> torch.Tensor:
    array = lengths.detach().cpu().numpy()
    assert isinstance(array, np.ndarray) and not isinstance(array, torch.Tensor)
    return torch.from_numpy(array)


@pytest.mark.parametrize(
    "layer, unpack, options",
    [
        (nn.LSTM, last_states, {"num_layers": 2}),
        (nn.LSTM, mean_up_to(None), {"proj_size": 4}),
        (nn.GRU, mean_up_to(4), {"read": lambda lengths: lengths.cpu().tolist()}),
        (nn.GRU, mean_up_to(7), {"bias": False, "read": lambda lengths: [int(n) for n in lengths]}),
        (nn.GRU, packed_again, {}),
        (nn.RNN, mean_of_changed, {}),
        (nn.RNN, mixed_in_each_step, {"read": lambda lengths: lengths.cpu().numpy()}),
        (nn.RNN, last_states, {"read": from_an_array}),
    ],
)
def test_packed_by_lengths_of_the_batch(
    tmp_path: pathlib.Path, layer: type[nn.RNNBase], unpack: Any, options: Any
) -> None:
    """Up to rounding: other rows are multiplied with each other."""
    step = packed_by_lengths(layer, unpack, **options)
    results = export(step, tmp_path).run()
    loss = step.loss(step.model, **step.inputs)
    loss.backward()
    torch.testing.assert_close(results["loss", ""], loss.detach())
    for name, parameter in step.model.named_parameters():
        torch.testing.assert_close(results["gradient", name], parameter.grad)


def test_the_longest_sequence_as_a_size(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ExportError, match=r"give pad_packed_sequence a total_length"):
        export(packed_by_lengths(nn.RNN, median_of_steps), tmp_path)


def ctc_step(lengths: Any, normalise: Any = F.log_softmax, **options: Any) -> Any:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor, **inputs: torch.Tensor) -> Any:
        scores = normalise(model(x), -1).transpose(0, 1)
        return F.ctc_loss(scores, y, *lengths(**inputs), **options)

    generator = torch.Generator().manual_seed(2)
    inputs = {
        "x": torch.randn(4, 9, 8, generator=generator),
        "y": torch.randint(1, 5, (4, 3), generator=generator),
    }
    torch.manual_seed(0)
    return classify(nn.Linear(8, 5), inputs=inputs, loss=loss)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_ctc_of_known_lengths(tmp_path: pathlib.Path, reduction: str) -> None:
    lengths = lambda: (torch.full((4,), 9), torch.tensor([3, 1, 2, 3]))
    exported = assert_same_as_eager(ctc_step(lengths, reduction=reduction), tmp_path)
    assert "aten::_ctc_loss" in exported.ops()


@pytest.mark.parametrize("normalise", [F.log_softmax, lambda scores, dim: scores], ids=["", "raw"])
def test_ctc_of_lengths_among_the_inputs(tmp_path: pathlib.Path, normalise: Any) -> None:
    """Up to rounding; a target that does not fit into its steps counts zero. The gradient is
    PyTorch's also where scores are no logarithms of probabilities."""
    step = ctc_step(lambda steps, labels: (steps, labels), normalise, zero_infinity=True)
    step.inputs |= {"steps": torch.tensor([9, 5, 2, 7]), "labels": torch.tensor([3, 1, 3, 0])}
    results = export(step, tmp_path).run()
    loss = step.loss(step.model, **step.inputs)
    loss.backward()
    torch.testing.assert_close(results["loss", ""], loss.detach())
    torch.testing.assert_close(results["gradient", "weight"], step.model.weight.grad)

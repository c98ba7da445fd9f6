"""Tests that ranks whose masks hold for different numbers of elements train as eager PyTorch does."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import fsdp_mlir
from support import chain, reference

ROWS, WIDTH, STEPS = 4, 6, 3


def step_of(largest: int) -> fsdp_mlir.TrainingStep:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 1))

    def loss(model: nn.Module, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        with fsdp_mlir.at_most(largest):
            rows = x[mask]
        return model(rows).square().sum() + model(x).mean()

    x = torch.randn(6 * ROWS, WIDTH)
    mask = x[:, 0] > 0
    return fsdp_mlir.TrainingStep(
        model=model,
        loss=loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
        inputs={"x": x[:ROWS], "mask": mask[:ROWS]},
        data={"x": x, "mask": mask},
        steps=STEPS,
    )


def all_of_them(argv: list[str]) -> Any:
    return step_of(ROWS)


def one_of_them(argv: list[str]) -> Any:
    return step_of(1)


@pytest.mark.quick
def test_ranks_with_other_numbers_of_elements(tmp_path: pathlib.Path) -> None:
    result = chain.run_plan(chain.compile_step(all_of_them, tmp_path), 2, steps=STEPS)
    wanted = reference.averaged(step_of(ROWS), 2, STEPS)
    torch.testing.assert_close(result.weights, dict(wanted.state), rtol=1e-6, atol=1e-7)


def test_more_elements_than_said(tmp_path: pathlib.Path) -> None:
    """Tests that the run ends with an error that names the line of the selection."""
    compiled = chain.compile_step(one_of_them, tmp_path)
    with pytest.raises(chain.ChainError, match=r"sizes_by_values.py:\d+: more than at_most\(1\)"):
        chain.run_plan(compiled, 2, steps=STEPS)


def a_column(argv: list[str]) -> Any:
    """Of a place that is read from a tensor, and views of parts of a transposed tensor."""
    torch.manual_seed(0)
    model = nn.Linear(WIDTH, 8)

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        place = int(y.detach().sum(0).argmin()) % 4
        part = y.t()[place : place + 2]
        return y[:, place].sum() + (2 * part).exp().sum() + part.t().relu().square().sum()

    x = torch.randn(6 * ROWS, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    return fsdp_mlir.TrainingStep(
        model, loss, optimizer, {"x": x[:ROWS]}, data={"x": x}, steps=STEPS
    )


def test_parts_that_leave_gaps(tmp_path: pathlib.Path) -> None:
    """Tests that what is a view in eager mode, and a copy in a plan, has the strides of the copy."""
    result = chain.run_plan(chain.compile_step(a_column, tmp_path), 2, steps=STEPS)
    wanted = reference.averaged(a_column([]), 2, STEPS)
    torch.testing.assert_close(result.weights, dict(wanted.state), rtol=1e-6, atol=1e-7)


def packed(argv: list[str]) -> Any:
    """Recurrent layers over sequences of lengths that are in the batch."""
    torch.manual_seed(0)
    model = nn.ModuleList([nn.LSTM(WIDTH, 4, bidirectional=True), nn.Linear(8, 1)])

    def loss(model: nn.Module, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        sequences = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, last = pad_packed_sequence(model[0](sequences)[0], batch_first=True)
        return model[1](out.sum(1) / last[:, None]).square().mean()

    data = {"x": torch.randn(6 * ROWS, 5, WIDTH), "lengths": torch.randint(1, 5, (6 * ROWS,))}
    data["lengths"][-2 * ROWS :] = int(*argv or "5")
    inputs = {name: tensor[:ROWS] for name, tensor in data.items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    return fsdp_mlir.TrainingStep(model, loss, optimizer, inputs, data=data, steps=STEPS)


def packed_beyond_the_end(argv: list[str]) -> Any:
    return packed(["6"])


def test_packed_sequences_of_the_batchs_lengths(tmp_path: pathlib.Path) -> None:
    result = chain.run_plan(chain.compile_step(packed, tmp_path), 2, steps=STEPS)
    wanted = reference.averaged(packed([]), 2, STEPS)
    torch.testing.assert_close(result.weights, dict(wanted.state), rtol=1e-5, atol=1e-7)


def test_a_length_that_is_beyond_the_end(tmp_path: pathlib.Path) -> None:
    compiled = chain.compile_step(packed_beyond_the_end, tmp_path)
    with pytest.raises(
        chain.ChainError, match=r"lengths .* do not fall from at most 5 to at least 1"
    ):
        chain.run_plan(compiled, 2, steps=STEPS)

"""Tests what an export makes of collectives of the step's own code. test/numerics/parity has their
results."""

from __future__ import annotations

import pathlib
from typing import Callable

import pytest
import torch
from exporting import classify, export
from torch import Tensor, distributed, nn

from fsdp_mlir.errors import ExportError

HERE = pathlib.Path(__file__).name


class Model(nn.Module):
    def __init__(self, body: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head = body, nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.head(x))


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")


def added_up(y: Tensor) -> Tensor:
    mean = y.mean(0)
    distributed.all_reduce(mean)
    return y - mean


def averaged(y: Tensor) -> Tensor:
    return y - distributed.nn.functional.all_reduce(y.mean(0)) / distributed.get_world_size()


@pytest.mark.parametrize("body, ranks", [(added_up, 0), (averaged, 2)])
def test_a_step_is_for_ranks_whose_number_it_computes_with(
    body: Callable, ranks: int, two_ranks: None, tmp_path: pathlib.Path
) -> None:
    exported = export(classify(Model(body)), tmp_path)
    assert exported.metadata["ranks"] == ranks
    assert not exported.warnings


def of_the_rank(y: Tensor) -> Tensor:
    return y * (1 + distributed.get_rank())


def of_the_rank_beside_a_decision(y: Tensor) -> Tensor:
    if y.mean().item() > 0:  # so that Dynamo does not follow the step
        y = y * 2
    return y * (1 + distributed.get_rank())


def in_a_list(y: Tensor) -> Tensor:
    scales = [1.0, 2.0]
    return y * scales[distributed.get_rank()]


def where_it_is_the_first(y: Tensor) -> Tensor:
    return y * 2 if distributed.get_rank() == 0 else y


@pytest.mark.parametrize(
    "body", [of_the_rank, of_the_rank_beside_a_decision, in_a_list, where_it_is_the_first]
)
def test_the_ranks_number_is_a_value(
    body: Callable, two_ranks: None, tmp_path: pathlib.Path
) -> None:
    exported = export(classify(Model(body)), tmp_path)
    nodes = exported.metadata["programs"]["step"]["nodes"]
    assert "fsdp_mlir::rank" in {node["op"] for node in nodes}


def among_some(y: Tensor) -> Tensor:
    distributed.all_reduce(y, group=object())
    return y


def by_bits(y: Tensor) -> Tensor:
    hit = (y > 0).int()
    distributed.all_reduce(hit, distributed.ReduceOp.BAND)
    return y * hit


def of_truths(y: Tensor) -> Tensor:
    hit = y > 0
    distributed.all_reduce(hit)
    return y * hit


def from_nobody(y: Tensor) -> Tensor:
    y = y.clone()
    distributed.broadcast(y, src=2)
    return y


def to_each_other(y: Tensor) -> Tensor:
    other = torch.empty_like(y)
    distributed.all_to_all_single(other, y)
    return y + other


@pytest.mark.parametrize(
    "body, line, said",
    [
        (among_some, 1, "the step communicates by a group of some ranks (group=); it may sum"),
        (by_bits, 2, "the step communicates by the reduction band; it may sum"),
        (of_truths, 2, "the step communicates by a sum of truth values; it may sum"),
        (from_nobody, 2, "the step communicates by a rank 2 of 2; it may sum"),
        (to_each_other, 2, "the step communicates by torch.distributed.all_to_all_single;"),
    ],
)
@pytest.mark.provokes("FSDP-E0210")
def test_others_are_refused(
    body: Callable, line: int, said: str, two_ranks: None, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ExportError) as refused:
        export(classify(Model(body)), tmp_path)
    assert refused.value.message.startswith(f"{HERE}:{body.__code__.co_firstlineno + line}: {said}")

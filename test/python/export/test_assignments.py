"""Tests of losses that match what a model finds with what there is, by SciPy's linear_sum_assignment."""

from __future__ import annotations

import pathlib
import re

import numpy
import pytest
import scipy.optimize
import torch
from exporting import assert_trains_as_eager, classify, export
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn import functional as F

from fsdp_mlir import ExportError
from fsdp_mlir.capture.graph.own_operators import SCHEMAS
from support import chain, own_operators

QUERIES, TARGETS, KINDS = 6, 3, 4
MATCH = linear_sum_assignment


class Detector(nn.Module):
    """For each query a kind, the last one of which is none, and a box."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(QUERIES, 8))
        self.body, self.kinds, self.boxes = nn.Linear(8, 8), nn.Linear(8, KINDS), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.body(x[:, None] + self.queries).relu()
        return self.kinds(h), self.boxes(h).sigmoid()


@torch.no_grad()
def matched(
    logits: Tensor, found: Tensor, kinds: Tensor, boxes: Tensor
) -> list[tuple[Tensor, ...]]:
    """As DETR's matcher: for each image, which queries stand for which targets."""
    of_kinds = -logits.flatten(0, 1).softmax(-1)[:, kinds.flatten()]
    cost = of_kinds + 5 * torch.cdist(found.flatten(0, 1), boxes.flatten(0, 1), p=1)
    cost = cost.view(len(logits), QUERIES, -1).cpu()
    parts = enumerate(cost.split([TARGETS] * len(logits), -1))
    pairs = [linear_sum_assignment(part[number]) for number, part in parts]
    return [tuple(torch.as_tensor(places, dtype=torch.int64) for places in pair) for pair in pairs]


def detection(model: nn.Module, x: Tensor, kinds: Tensor, boxes: Tensor) -> Tensor:
    logits, found = model(x)
    pairs = matched(logits, found, kinds, boxes)
    image = torch.cat([torch.full_like(queries, n) for n, (queries, _) in enumerate(pairs)])
    query = torch.cat([queries for queries, _ in pairs])
    wanted = torch.full(logits.shape[:2], KINDS - 1)
    wanted[image, query] = torch.cat([of[targets] for of, (_, targets) in zip(kinds, pairs)])
    theirs = torch.cat([of[targets] for of, (_, targets) in zip(boxes, pairs)])
    return F.cross_entropy(logits.transpose(1, 2), wanted) + F.l1_loss(found[image, query], theirs)


def by_arrays(model: nn.Module, x: Tensor, kinds: Tensor, boxes: Tensor) -> Tensor:
    """Rows and columns of a tall matrix and of a wide one, by the name of SciPy's module and by another."""
    _, found = model(x)
    cost = torch.cdist(found[0], boxes[0])
    columns, rows = scipy.optimize.linear_sum_assignment(cost.t().detach().numpy(), maximize=True)
    tall = MATCH(cost.detach())
    assert len(rows) == len(tall[0]) == TARGETS
    chosen = cost[torch.from_numpy(rows), torch.from_numpy(columns)]
    return chosen.sum() + cost[tuple(map(torch.as_tensor, tall))].sum()


def by_groups(model: nn.Module, x: Tensor, kinds: Tensor, boxes: Tensor) -> Tensor:
    """Each half of the queries is matched with all targets, as in Group DETR."""
    _, found = model(x)
    cost = torch.cdist(found[0], boxes[0])
    halves = [linear_sum_assignment(half) for half in cost.detach().split(QUERIES // 2)]
    (first, theirs), (second, again) = halves
    query = numpy.concatenate([first, second + QUERIES // 2])
    target = numpy.concatenate([theirs, again])
    return cost[torch.as_tensor(query), torch.as_tensor(target)].sum()


@pytest.mark.parametrize("loss", [detection, by_arrays, by_groups])
def test_pairs_are_scipys(loss: object) -> None:
    torch.manual_seed(3)
    batches = [
        {
            "x": torch.randn(2, 8),
            "kinds": torch.randint(KINDS - 1, (2, TARGETS)),
            "boxes": torch.rand(2, TARGETS, 4),
        }
        for _ in range(5)
    ]
    assert_trains_as_eager(Detector, loss, batches)


def test_equal_costs_give_scipys_pairs() -> None:
    """Of small whole numbers, so that several assignments are the cheapest ones."""
    own_operators.load()
    generator = torch.Generator().manual_seed(0)
    for number in range(300):
        shape = torch.randint(1, 9, (2,), generator=generator).tolist()
        cost = torch.randint(4, shape, generator=generator).double()
        maximize = number % 2 == 1
        found = torch.ops.fsdp_mlir.linear_sum_assignment(cost, maximize)
        for ours, theirs in zip(found, linear_sum_assignment(cost, maximize)):
            assert numpy.array_equal(ours, theirs)


def test_operators_are_the_runtimes() -> None:
    operators = pathlib.Path(chain.ROOT / "runtime/operators/Operators.def").read_text()
    defined = re.findall(r'^FSDP_CPU_OPERATOR\("(.*)"\)$', operators, re.MULTILINE)
    assert set(SCHEMAS) <= set(defined)


@pytest.mark.provokes("FSDP-E0210")
def test_what_reads_the_pairs_is_refused(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        rows, columns = linear_sum_assignment(model(x).detach())
        return sum(model(x)[row, column] for row, column in zip(rows, columns))

    with pytest.raises(
        ExportError, match=r"^test_assignments.py:\d+: the step gives a tensor to NumPy"
    ):
        export(classify(nn.Linear(8, 3), loss=loss), tmp_path)

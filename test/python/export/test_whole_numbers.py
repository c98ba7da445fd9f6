"""Tests of whole numbers that a step reads from tensors to say where a part of one begins, as the
pointer of a queue: with eager's bits, whether Dynamo follows the step or it runs."""

import pathlib
import sys
import threading
import types
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, export, installed
from torch import Tensor, nn

import fsdp_mlir
from fsdp_mlir import ExportError
from fsdp_mlir.driver.sources import record_sources

LOCK = threading.RLock()


class Queue(nn.Module):
    """A layer beside a queue of 12 rows, for which `use` reads a pointer."""

    def __init__(self, use: Callable[[Any, Tensor], Any], runs: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.weights = nn.Parameter(torch.randn(12, 3))
        self.register_buffer("rows", torch.randn(12, 3))
        self.register_buffer("columns", torch.randn(3, 12))
        self.register_buffer("pointer", torch.full((1,), 4))
        self.use, self.runs = use, runs

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        score = y @ self.rows.clone().T @ self.columns.clone().T
        if not self.runs:
            return score + self.use(self, y)
        with LOCK:  # which Dynamo does not follow
            return score + self.use(self, y)


@torch.no_grad()
def columns(model: Any, y: Tensor) -> Any:
    """As MoCo's `_dequeue_and_enqueue`."""
    begin, count = int(model.pointer), len(y)
    assert 12 % count == 0
    model.columns[:, begin : begin + count] = y.T
    model.pointer[0] = (begin + count) % 12
    return 0


@torch.no_grad()
def rows(model: Any, y: Tensor) -> Any:
    begin = model.pointer.item()
    model.rows[begin : begin + len(y)].copy_(y)
    model.pointer.fill_((begin + len(y)) % 12)
    return 0


@torch.no_grad()
def a_ring(model: Any, y: Tensor) -> Any:
    begin = int(model.pointer[0])
    for i, row in enumerate(y):
        model.rows[(begin + i) % 12] = row
        model.columns[1, (begin + i) % 12] = 7.0
    return 0


def reads(model: Any, y: Tensor) -> Tensor:
    """With gradients of what is read, and one place counted from the end."""
    begin = int(model.pointer)
    part = model.weights[begin : begin + 4] + model.columns[:, begin]
    return y * part * model.weights[begin] + model.columns[:, begin - 6]


def reads_one(model: Any, y: Tensor) -> Tensor:
    return y * model.weights[int(model.pointer)]


def crops(model: Any, y: Tensor) -> Tensor:
    at = torch.randint(0, 9, (1,)).item()
    return y * model.weights[at : at + 4]


def rolls(model: Any, y: Tensor) -> Tensor:
    """As Autoformer does by the delays that it finds, with gradients."""
    delays = model.weights.sum(1).topk(2)[1]
    rolled = [model.weights.roll(-int(delay), 0)[:4] for delay in delays]
    both = model.columns.roll((int(delays[0]), 1), (1, 0))
    return y * (rolled[0] + rolled[1] * int(delays[0])) + both[:, 0]


def looks_up(model: Any, y: Tensor) -> Tensor:
    """As scripts of diffusers find their noise by the steps that were drawn."""
    found = [(model.rows[:, 0] == value).nonzero().item() for value in model.rows[3:7, 0]]
    return y * model.weights[found] * model.weights[[found[0], 2], 0].sum()


def is_given_tensors(model: Any, y: Tensor) -> Tensor:
    """As places, of which PyTorch reads the numbers."""
    place = model.pointer[0]
    rows = torch.stack([model.weights[chosen] for chosen in y.argmax(1)])
    return y * rows * model.weights[None, place] + model.columns[..., place]


def cuts(model: Any, y: Tensor) -> Tensor:
    """With tensors as the ends of parts, and what is whole of one, and numbers written where a mask
    holds."""
    place = model.pointer[0]
    row = model.weights[place].clone()
    row[row > 0] = float(place)
    longest = 1 + int(y.detach().abs().max())
    y = y * model.weights[:longest].sum()
    return y * row * model.weights[:place].sum() + model.columns[:, place:].sum()


def scales(model: Any, y: Tensor) -> Tensor:
    """By fractions of Python's: what has no dimensions, is whole or has 16 bits keeps its dtype."""
    begin = int(model.pointer)
    part = model.weights[begin].mean() * (1.0 / max(1, begin))
    small = y.mean().bfloat16() * (1.0 / begin) + begin
    return y * (y.mean() * (begin / 7 * 3)) + part + small.float() + torch.arange(3) * (1 / begin)


def branches(model: Any, y: Tensor) -> Tensor:
    pointer = int(model.pointer)
    model.pointer += 1
    return y if pointer > 3 else -y


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize(
    "use",
    [
        columns,
        rows,
        a_ring,
        reads,
        crops,
        rolls,
        looks_up,
        is_given_tensors,
        cuts,
        scales,
        branches,
    ],
)
def test_parts_at_such_places(tmp_path: pathlib.Path, use: Callable, runs: bool) -> None:
    if (use, runs) == (a_ring, False):
        pytest.skip("Dynamo does not follow it either")
    assert_same_as_eager(classify(Queue(use, runs)), tmp_path)


@pytest.mark.parametrize(
    "use, place", [(columns, 9), (columns, -1), (reads_one, 12), (reads_one, -13)]
)
def test_a_part_that_is_not_there_ends_the_step(
    tmp_path: pathlib.Path, use: Callable, place: int
) -> None:
    model = Queue(use, runs=use is reads_one)
    exported = export(classify(model), tmp_path)
    exported.weights["pointer"].fill_(place)
    text = (
        r"test_whole_numbers.py:\d+: (the step needs [41] places of 12|a slice's place is below 0)"
    )
    with pytest.raises(RuntimeError, match=text):
        exported.run()


def counts_on(model: Any, y: Tensor) -> Tensor:
    pointer = int(model.pointer)
    model.pointer += 1
    return y * len(range(pointer))


@pytest.mark.provokes("FSDP-E0206")
@pytest.mark.parametrize("runs", [False, True])
def test_a_length_by_such_a_number_is_refused(tmp_path: pathlib.Path, runs: bool) -> None:
    text = r"^test_whole_numbers.py:\d+: the step reads the buffer pointer as a Python value"
    with pytest.raises(ExportError, match=text):
        export(classify(Queue(counts_on, runs)), tmp_path)


def crops_or_pads(model: Any, y: Tensor) -> Tensor:
    """As torchvision's RandomCrop, which never draws a place that needs padding."""
    at, other = torch.randint(0, 9, (1,)).item(), int(torch.randint(5, size=(1,)))
    if at < 0 or at + 4 > 12 or other > 4:
        return y * F.pad(model.weights[max(at, 0) : at + 4], (0, 0, 0, 8 - at))
    return y * model.weights[at : at + 4] + model.weights[other]


def test_a_decision_that_bounds_of_a_draw_settle_is_none(tmp_path: pathlib.Path) -> None:
    exported = assert_same_as_eager(classify(Queue(crops_or_pads, runs=True)), tmp_path)
    assert not any("decides by values" in text for text in exported.notes)


def changes_what_it_drew(model: Any, y: Tensor) -> Tensor:
    at, other = torch.randint(0, 3, (1,)), torch.randint(0, 3, (1,))
    at[0] += 5
    other.data.add_(4)
    if at.item() > 4 and other.item() > 3:
        return y * model.weights[at.item()]
    return y * model.weights.sum()


def test_what_changes_behind_a_draw_has_no_such_bounds(tmp_path: pathlib.Path) -> None:
    assert_same_as_eager(classify(Queue(changes_what_it_drew, runs=True)), tmp_path)


LIBRARY = """import torch


def sums(rows, index):
    count = int(index.max()) + 1 if index.numel() > 0 else 0
    weight = float(rows.detach().sum())
    return rows.new_zeros(count, rows.shape[1]).index_add_(0, index, rows) * weight


def chosen(index, count):
    return torch.nn.functional.one_hot(index, max(index.max() + 1, count))[..., :count]
"""


def test_sizes_that_a_library_reads(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = installed("sums_rows", LIBRARY, tmp_path, monkeypatch)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        with LOCK, fsdp_mlir.at_most(3):  # which Dynamo does not follow
            rows = library.sums(model(x), y)
            return rows.square().mean() + (model(x)[:, :2] * library.chosen(y, 2)).sum()

    step = classify(nn.Linear(8, 3), loss=loss)
    exported = export(step, tmp_path)
    for y in ([0, 2, 1, 2], [0, 0, 0, 0], [1, 1, 0, 1]):
        inputs = {"x": step.inputs["x"], "y": torch.tensor(y)}
        exported.weights["fsdp.input.y"] = inputs["y"]
        expected = step.loss(step.model, **inputs).detach()
        torch.testing.assert_close(exported.run()["loss", ""], expected)


def test_a_class_that_is_none_of_as_many_as_values_say(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        with LOCK, fsdp_mlir.at_most(3):
            return (model(x)[:, :1] * F.one_hot(y, int(y[0]) + 1)).square().sum()

    exported = export(classify(nn.Linear(8, 3), loss=loss), tmp_path)
    exported.weights["fsdp.input.y"] = torch.tensor([1, 0, 0, 1])
    exported.run()
    exported.weights["fsdp.input.y"] = torch.tensor([0, 1, 0, 0])
    with pytest.raises(RuntimeError):
        exported.run()


class Later(types.ModuleType):
    """A module that is loaded when code reads from it, as speechbrain's that need a further package."""

    def __getattr__(self, name: str) -> Any:
        raise ImportError(name)


def test_modules_that_are_loaded_when_they_are_used(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "later", Later("later"))
    assert_same_as_eager(classify(Queue(reads, runs=True)), tmp_path)
    with record_sources():
        monkeypatch.setitem(sys.modules, "much_later", Later("much_later"))


def test_code_that_explains_what_it_catches(tmp_path: pathlib.Path) -> None:
    """As ultralytics' loss of oriented boxes, which takes an error for one of its data."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        try:
            with LOCK:  # which Dynamo does not follow
                rows = x[x[:, 0] > 0]
        except RuntimeError as error:
            raise TypeError("not a data set of rows") from error
        return model(rows).square().mean()

    step = classify(nn.Linear(8, 3), loss=loss)
    results = export(step, tmp_path).run()
    torch.testing.assert_close(results["loss", ""], step.loss(step.model, **step.inputs).detach())

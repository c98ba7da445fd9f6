"""Tests buffers by which a step's Python decides, and those that hold nothing for the next step."""

import pathlib
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from exporting import (
    assert_same_as_eager,
    assert_trains_as_eager,
    classify,
    cross_entropy,
    export,
)
from torch import nn

from fsdp_mlir import ExportError
from fsdp_mlir.capture.context import SharedForward
from fsdp_mlir.capture.state.python_state import PythonState
from fsdp_mlir.capture.step_loss import StepLoss


class ActNorm(nn.Linear):
    """The first batch gives its bias."""

    def __init__(self, seen: Any) -> None:
        super().__init__(8, 3)
        if isinstance(seen, torch.Tensor):
            self.register_buffer("seen", seen)
        else:
            self.seen = seen

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.seen:
            with torch.no_grad():
                self.bias.copy_(-F.linear(x, self.weight).mean(0))
            self.seen = self.seen | True
        return super().forward(x)


class Solver(nn.Linear):
    """Steps through times, of which it asks whether they rise, and has a number in a buffer too."""

    def __init__(self) -> None:
        super().__init__(8, 8)
        self.register_buffer("times", torch.linspace(0, 1, 3))
        self.register_buffer("padding", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        begin, end = self.times[:-1], self.times[1:]
        signs = 1 if (end > begin).all() else -1
        for step in signs * (end - begin):
            x = x + step * super().forward(F.pad(x, (0, self.padding)))
        return x


def test_a_branch_on_what_a_buffer_holds(tmp_path: pathlib.Path) -> None:
    """Tests that it is decided at export where no program changes the buffer, and in each step where
    that one does."""
    assert_same_as_eager(classify(Solver()), tmp_path)
    said = "\n".join(export(classify(Solver()), tmp_path).notes)
    assert "the step asks in Python what times holds, which no step changes" in said

    def moves(model: Solver, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = cross_entropy(model, x, y)
        model.times += 1
        return loss

    exported = assert_same_as_eager(classify(Solver(), loss=moves), tmp_path)
    assert any("the step decides by values" in text for text in exported.notes)


@pytest.mark.provokes("FSDP-E0206")
@pytest.mark.parametrize("first", [True, False])
def test_a_buffer_that_another_program_changes(tmp_path: pathlib.Path, first: bool) -> None:
    def moves(model: Solver, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        model.times += 1
        return F.linear(x, model.weight, model.bias).square().mean()

    model = Solver()
    losses = {"asks": cross_entropy, "moves": moves}
    optimizers = {"asks": torch.optim.SGD([model.weight]), "moves": torch.optim.SGD([model.bias])}
    step = classify(
        model,
        loss=losses if first else dict(reversed(losses.items())),
        optimizer=optimizers if first else dict(reversed(optimizers.items())),
    )
    with pytest.raises(ExportError, match="from the buffer times alone"):
        export(step, tmp_path)


@pytest.mark.provokes("FSDP-E0206", "FSDP-E0213")
def test_a_flag_of_the_first_batch(tmp_path: pathlib.Path) -> None:
    """Tests that a buffer may be one, and a bool, where a batch comes before the step."""
    models = {
        ActNorm(torch.tensor(False)): r"buffers.py:\d+: the step reads the buffer seen as",
        ActNorm(
            False
        ): "the step changes the parameter bias in place, .* run the model on one before",
    }
    for model, text in models.items():
        with pytest.raises(ExportError, match=text):
            export(classify(model), tmp_path)
        model(torch.randn(4, 8))
        assert_same_as_eager(classify(model), tmp_path)


@pytest.mark.provokes("FSDP-E0213")
def test_a_parameter_is_set_beside_such_a_branch(tmp_path: pathlib.Path) -> None:
    """Tests that the refusal names the line that sets it, where no value decides what it is set to."""

    def follows(model: Solver, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            model.weight.add_(x.mean())
        loss = cross_entropy(model, x, y)
        model.times += 1
        return loss

    line = follows.__code__.co_firstlineno + 2
    with pytest.raises(
        ExportError, match=rf"^test_buffers.py:{line}: the step changes .* weight in"
    ):
        export(classify(Solver(), loss=follows), tmp_path)


class Spikes(nn.Linear):
    """Has a potential that each step begins anew, unless it `reads` what the one before has left."""

    def __init__(self, potential: torch.Tensor, reads: bool) -> None:
        super().__init__(8, 3)
        self.register_buffer("potential", potential, persistent=False)
        self.reads = reads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.reads:
            self.potential = torch.zeros_like(self.potential)
        if self.potential.shape != (len(x), 3):
            self.potential = torch.zeros(len(x), 3)
        for _ in range(2):
            self.potential = super().forward(x) + self.potential / 2
        return self.potential


@pytest.mark.provokes("FSDP-E0213")
@pytest.mark.parametrize("shape", [(0,), (4, 3)])
def test_a_buffer_that_each_step_begins_anew(tmp_path: pathlib.Path, shape: Any) -> None:
    exported = assert_same_as_eager(classify(Spikes(torch.zeros(shape), reads=False)), tmp_path)
    assert [w for w in exported.warnings if "model.potential, which stays as it is" in w]
    with pytest.raises(ExportError, match="in the place of potential"):
        export(classify(Spikes(torch.zeros(shape), reads=True)), tmp_path)


class Counts(nn.Linear):
    """Has its buffer in an attribute too, which keeps the tensor that a step replaces."""

    def __init__(self) -> None:
        super().__init__(8, 3)
        self.first = torch.tensor(0.5)
        self.register_buffer("count", self.first)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count = self.count + 1
        return super().forward(x) * self.count + self.first


def test_an_attribute_keeps_a_buffer_that_a_step_replaces() -> None:
    assert_trains_as_eager(Counts)


class Distances(nn.Linear):
    """Has a table for the length of its input, which the first step makes in a smaller one's place."""

    def __init__(self) -> None:
        super().__init__(8, 3)
        self.register_buffer("table", torch.zeros(1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(self.table) != x.shape[1]:
            self.table = torch.arange(8.0) ** 0.5
        return super().forward(x * self.table)


def test_a_table_that_the_first_step_makes(tmp_path: pathlib.Path) -> None:
    exported = assert_same_as_eager(classify(Distances()), tmp_path)
    assert [w for w in exported.warnings if "model.table, which stays as it is" in w]


@pytest.mark.parametrize("shape", [(3,), ()])
def test_a_buffer_in_whose_place_another_one_is_is_put_back(shape: tuple[int, ...]) -> None:
    """It is the tensor itself, whatever the other one holds."""
    model = nn.Linear(8, 3)
    own = torch.ones(shape)
    model.register_buffer("scale", own)
    step = classify(model)
    loss = StepLoss(model, step.turns, None, tuple(step.inputs), SharedForward())
    state = PythonState(loss)
    model.scale = torch.ones(shape)
    state.restore()
    assert model.scale is own

"""Tests that a step which decides by a number that it keeps in Python trains as eager does, or is
refused by line, whether the decision falls otherwise in the next step or a thousand steps later."""

from __future__ import annotations

import inspect
import itertools
import math
import pathlib
import re
from typing import Any, Callable, Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, assert_trains_as_eager, classify, export
from torch import Tensor, nn

from fsdp_mlir import ExportError
from fsdp_mlir.capture.state import trials
from fsdp_mlir.errors import ExportNote
from fsdp_mlir.export import export_step

LOGGED: list[Any] = []
PATHS: list[pathlib.Path] = []


class Counts(nn.Module):
    """Counts its calls, and does with the count what `uses` does; `at` is where that changes."""

    def __init__(self, uses: Callable[[Counts, Tensor], Tensor], at: int) -> None:
        super().__init__()
        self.layer, self.target = nn.Linear(8, 3), nn.Linear(8, 3).requires_grad_(False)
        self.steps, self.at, self.phase, self.uses = 0, at, 0, uses
        self.weights = [1.0] * at + [0.5] * 5000
        self.counts, self.milestones = {"steps": 0}, {at: 0.5, 2 * at: 0.25}
        self.table, self.history, self.array = None, [], np.zeros(2)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        return self.uses(self, self.layer(x))


def copies_the_target(m: Counts, y: Tensor) -> Tensor:
    if m.steps % m.at == 0:  # here
        m.target.weight.data.copy_(m.layer.weight.data)
    return y


def replaces_a_buffer(m: Counts, y: Tensor) -> Tensor:
    if m.steps % m.at == 0:  # here
        m.scale = m.scale * 0.9
    return y * m.scale


def fills_a_list(m: Counts, y: Tensor) -> Tensor:
    m.history.append(y.detach())
    return y.relu() if len(m.history) >= m.at else y  # here


def grows_a_list_later(m: Counts, y: Tensor) -> Tensor:
    if m.steps % m.at == 0:
        m.history.append(y.detach())
    return y.relu() if len(m.history) > 1 else y  # here


def counts_in_an_array(m: Counts, y: Tensor) -> Tensor:
    m.array[0] += 1
    return y.relu() if m.array[0] >= m.at else y  # here


def has_two_conditions(m: Counts, y: Tensor) -> Tensor:
    if m.steps >= m.at and m.steps % m.at == 0:  # here
        y = y + 1
    return y


def is_copied_and_saved(m: Counts, y: Tensor) -> Tensor:
    if m.steps % m.at == 0:  # here
        m.scale.copy_(y.detach().mean(0))
        torch.save(m.scale, PATHS[-1])
    return y * m.scale


def checks_values(m: Counts, y: Tensor) -> Tensor:
    if (y.abs() > 1e6).any():
        raise ValueError("the layer gives large values")
    return y * 2 if m.steps < m.at else y  # here


def selects_rows(m: Counts, y: Tensor) -> Tensor:
    rows = torch.nonzero(y[:, 0] > 0).squeeze(-1)
    y = y.index_add(0, rows, y[rows])
    return y * 2 if m.steps < m.at else y  # here


def has_a_table(m: Counts, y: Tensor) -> Tensor:
    if m.table is None:
        m.table = m.scale.cos()
    return y * m.table if m.steps < m.at else y  # here


def is_one_of_some(m: Counts, y: Tensor) -> Tensor:
    return y.relu() if m.steps in (m.at, 5 * m.at) else y  # here


def is_among_the_first(m: Counts, y: Tensor) -> Tensor:
    return y.relu() if m.steps in (2, 1) else y  # here, where one instruction asks twice


def has_a_truth(m: Counts, y: Tensor) -> Tensor:
    return y.relu() if m.steps // m.at else y  # here


def detaches(m: Counts, y: Tensor) -> Tensor:
    bias = m.layer.bias if m.steps < m.at else m.layer.bias.detach()  # here
    return y + bias


def enters_a_phase(m: Counts, y: Tensor) -> Tensor:
    if m.steps % m.at == 0:  # here
        m.phase += 1
    return y * 2 if m.phase > 0 else y


def looks_up(m: Counts, y: Tensor) -> Tensor:
    return y * m.weights[m.steps]  # here


def loops(m: Counts, y: Tensor) -> Tensor:
    for _ in range(min(3, m.steps // m.at)):  # here
        y = y.relu() + 1
    return y


def rounds(m: Counts, y: Tensor) -> Tensor:
    return y * math.floor(m.steps / m.at)  # here


def looks_for_a_milestone(m: Counts, y: Tensor) -> Tensor:
    return y * m.milestones.get(m.steps, 1.0)  # here


def is_in_a_set(m: Counts, y: Tensor) -> Tensor:
    return y.relu() if m.steps in {2, 1000, 30000} else y  # here


def counts_in_a_dict(m: Counts, y: Tensor) -> Tensor:
    m.counts["steps"] += 1
    if m.counts["steps"] >= m.at:  # here
        y = y.relu()
    return y


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, m: Counts) -> Tensor:
        ctx.model = m
        return y.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return g * ctx.model.weights[ctx.model.steps], None  # here


def looks_up_in_backward(m: Counts, y: Tensor) -> Tensor:
    return Scale.apply(y, m)


def changes_a_gradient(m: Counts, y: Tensor) -> Tensor:
    y.register_hook(lambda g: g * m.weights[m.steps])  # here
    return y


TAKEN = (
    counts_in_a_dict,
    copies_the_target,
    replaces_a_buffer,
    has_two_conditions,
    is_among_the_first,
    is_one_of_some,
    has_a_truth,
    detaches,
    enters_a_phase,
    rounds,
    checks_values,
    selects_rows,
    has_a_table,
)
REFUSED = (
    looks_for_a_milestone,
    is_in_a_set,
    looks_up,
    looks_up_in_backward,
    changes_a_gradient,
    loops,
)


@pytest.mark.parametrize("uses", TAKEN)
def test_a_later_decision_is_followed(uses: Callable[[Counts, Tensor], Tensor]) -> None:
    assert_trains_as_eager(lambda: Counts(uses, at=3))


@pytest.mark.parametrize("uses", [has_two_conditions, enters_a_phase])
def test_a_decision_that_falls_at_once_is_followed(
    uses: Callable[[Counts, Tensor], Tensor],
) -> None:
    assert_trains_as_eager(lambda: Counts(uses, at=2))


def line_of(function: Callable) -> str:
    function = Scale.backward if function is looks_up_in_backward else function
    lines, first = inspect.getsourcelines(function)
    (offset,) = [number for number, line in enumerate(lines) if "# here" in line]
    return f"test_late_decisions.py:{first + offset}: "


def test_what_one_way_saves_is_not_saved(tmp_path: pathlib.Path) -> None:
    PATHS.append(tmp_path / "scale.pt")
    notes = export(classify(Counts(is_copied_and_saved, at=3)), tmp_path).notes
    assert any("what the step saves here, no plan saves" in text for text in notes)
    assert not PATHS[-1].exists()


@pytest.mark.provokes("FSDP-E0207")
@pytest.mark.parametrize(
    "uses",
    (
        *REFUSED,
        fills_a_list,
        grows_a_list_later,
        counts_in_an_array,
    ),
)
def test_what_else_depends_on_a_number_is_refused(
    uses: Callable[[Counts, Tensor], Tensor], tmp_path: pathlib.Path
) -> None:
    model = Counts(uses, at=1000)
    told = f"{re.escape(line_of(uses))}.*model\\.(steps|counts\\['steps'\\]|history|array).*buffer.*own-loop"
    with pytest.raises(ExportError, match=told):
        export(classify(model), tmp_path)
    assert type(model.steps) is int and model.steps == 0 and model.phase == 0


@pytest.mark.parametrize("uses", [looks_for_a_milestone, loops])
def test_a_decision_that_falls_at_once_is_refused(
    uses: Callable[[Counts, Tensor], Tensor], tmp_path: pathlib.Path
) -> None:
    with pytest.raises(
        ExportError, match=r"test_late_decisions.py:\d+: .*model\.(steps|phase|counts)"
    ):
        export(classify(Counts(uses, at=2)), tmp_path)


class Weighted:
    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        self.seen += 1
        loss = F.cross_entropy(model(x), y)
        return loss * (0.5 if self.seen > 3 else 1.0)


COUNT = 0


def by_a_global_variable(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    global COUNT
    COUNT += 1
    loss = F.cross_entropy(model(x), y)
    return loss * 0.5 if COUNT > 3 else loss


@pytest.mark.parametrize("loss", [Weighted(), by_a_global_variable])
def test_numbers_beside_the_model(loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> nn.Module:
        monkeypatch.setattr(loss, "seen", 0, raising=False)
        monkeypatch.setitem(globals(), "COUNT", 0)
        return nn.Linear(8, 3)

    assert_trains_as_eager(make, loss)


def numbers_without_end() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


@pytest.mark.provokes("FSDP-E0207")
@pytest.mark.parametrize("numbers", [itertools.count, numbers_without_end, lambda: iter([1] * 9)])
def test_an_iterator_that_counts(numbers: Any, tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    model.counter = numbers()

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x), y)
        return loss if next(model.counter) < 100 else 0.5 * loss

    with pytest.raises(ExportError, match="takes from model.counter, an iterator"):
        export(classify(model, loss=loss), tmp_path)


def tracks_a_mean(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    loss = F.cross_entropy(model(x), y)
    if model.mean > 0.3:
        loss = loss * 0.1
    model.mean = 0.9 * model.mean + 0.1 * loss.item()
    return loss


def test_a_branch_on_a_running_mean() -> None:
    def make() -> nn.Module:
        model = nn.Linear(8, 3)
        model.mean = 0.0
        return model

    assert_trains_as_eager(make, tracks_a_mean)


def logs(m: Counts, y: Tensor) -> Tensor:
    if m.steps % m.at == 0:
        print(f"step {m.steps}: {y.mean()}")
        LOGGED.append((m.steps, y.detach().abs().max()))
    return y


def formats(m: Counts, y: Tensor) -> Tensor:
    message = "%d of %s" % (m.steps, str(m.steps))
    m.said = {m.steps: message, "next": round(m.steps / m.at, 2)}
    return y


def checks(m: Counts, y: Tensor) -> Tensor:
    if m.steps > m.at:
        raise RuntimeError("too many steps")
    assert m.steps < 2 * m.at
    return y


def saves(m: Counts, y: Tensor) -> Tensor:
    if m.steps % m.at == 0:
        torch.save(m.layer.state_dict(), PATHS[-1])
    return y


def has_its_largest(m: Counts, y: Tensor) -> Tensor:
    """As a cache of positions, which grows in the first step and no more."""
    if y.shape[0] > m.phase:
        m.phase = y.shape[0]
    return y + torch.arange(m.phase, dtype=y.dtype)[: y.shape[0], None]


@pytest.mark.parametrize("uses", [logs, formats, checks, saves, has_its_largest])
def test_what_nothing_depends_on_stays_a_warning(
    uses: Callable[[Counts, Tensor], Tensor],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    PATHS.append(tmp_path / "weights.pt")
    model = Counts(uses, at=1000)
    exported = assert_same_as_eager(classify(model), tmp_path)
    assert any("changes Python state of" in text for text in exported.warnings)
    assert not PATHS[-1].exists() and LOGGED == []
    assert "step 1" not in capsys.readouterr().out


def test_steps_that_make_the_same_calls_are_computed_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[Any] = []

    def noted(*given: Any) -> Any:
        computed.append(given)
        return gradients(*given)

    gradients = trials._gradients
    monkeypatch.setattr(trials, "_gradients", noted)
    with pytest.warns(UserWarning, match="changes Python state of"):
        export_step(classify(Counts(logs, at=1000)), tmp_path / "step.pt")
    # Two steps that log nothing, and two of which one logs, the first or the second.
    assert len(computed) <= 2 * 3


def divides(m: Counts, y: Tensor) -> Tensor:
    return y * (1 + m.steps // m.at)


def is_at_most(m: Counts, y: Tensor) -> Tensor:
    return y * min(2, 1 + m.steps // m.at)


@pytest.mark.parametrize("uses", [divides, is_at_most])
def test_arithmetic_that_changes_later_is_kept(
    uses: Callable[[Counts, Tensor], Tensor], tmp_path: pathlib.Path
) -> None:
    step = classify(Counts(uses, at=1000))
    with pytest.warns(ExportNote, match="the step changes model.steps, with which it computes"):
        export_step(step, tmp_path / "step.pt")

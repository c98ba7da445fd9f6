"""Tests that a count by which a step decides is a buffer wherever Python has it as a number, that it is
refused elsewhere, and that what nobody can watch being read is a warning."""

from __future__ import annotations

import array
import collections
import dataclasses
import enum
import pathlib
import sys
import types
from typing import Any, Callable

import pytest
import torch.nn.functional as F
from exporting import classify, export
from torch import Tensor, nn

from fsdp_mlir import ExportError


class Limit(enum.IntEnum):
    """Whose members nobody can put back, which is not needed either."""

    CALLS = 50


@dataclasses.dataclass(frozen=True)
class Settings:
    __slots__ = ("limit",)
    limit: int


class Read(Settings):
    """Whose property hides a slot, and gives something new each time."""

    def __init__(self) -> None:
        pass

    limit = property(lambda self: [50])  # type: ignore[assignment]


class Names(list):
    def __init__(self, count: int) -> None:
        super().__init__(str(number) for number in range(count))


class Slots:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class OfANotebook:
    """Whose module, `__main__`, has no file."""

    __module__ = "__main__"

    def __init__(self) -> None:
        self.count = 0


class Counts(nn.Linear):
    total = 0

    def __init__(self) -> None:
        super().__init__(8, 3)
        self.slots, self.namespace = Slots(), types.SimpleNamespace(count=0)
        self.settings, self.read = Settings(50), Read()
        self.nested, self.pair = {"train": {"count": 0}, "names": Names(3)}, (
            [],
            "a list in a tuple",
        )
        self.text, self.array, self.marks = "", array.array("l", [0]), collections.Counter()
        self.order = collections.OrderedDict({0.5: None, 2.0: None})


SETTINGS = types.ModuleType("settings")
SETTINGS.__file__, SETTINGS.count = __file__, 0


def in_a_class(m: Counts) -> bool:
    Counts.total += 1
    return Counts.total > Limit.CALLS


def in_a_function(m: Counts) -> bool:
    in_a_function.calls += 1
    return in_a_function.calls > 50


in_a_function.calls = 0


def in_a_default(m: Counts, kept: dict[str, int] = {"count": 0}) -> bool:
    kept["count"] += 1
    return kept["count"] > 50


def in_a_list_of_a_default(m: Counts, *, kept: list[int] = []) -> bool:
    kept.append(0)
    return len(kept) > 50


def in_a_module(m: Counts) -> bool:
    SETTINGS.count += 1
    return SETTINGS.count > 50


def in_a_slot(m: Counts) -> bool:
    m.slots.count += 1
    return m.slots.count > m.settings.limit


def in_a_namespace(m: Counts) -> bool:
    m.namespace.count += 1
    return m.namespace.count > 50


def in_a_dict_of_a_dict(m: Counts) -> bool:
    m.nested["train"]["count"] += 1
    return m.nested["train"]["count"] > 50


def in_a_list_of_a_tuple(m: Counts) -> bool:
    m.pair[0].append(0)
    return len(m.pair[0]) > 50


def in_an_order(m: Counts) -> bool:
    m.order.move_to_end(next(iter(m.order)))
    return next(iter(m.order)) > 1


def in_a_text(m: Counts) -> bool:
    m.text += "."
    return len(m.text) > 50


def in_an_array(m: Counts) -> bool:
    m.array[0] += 1
    return m.array[0] > 50


def under_a_new_key(m: Counts) -> bool:
    m.marks["steps"] += 1
    return m.marks["steps"] > 50


def in_a_new_attribute(m: Counts) -> bool:
    m.calls = getattr(m, "calls", 0) + 1
    return m.calls > 50


def deciding(counts: Callable[[Any], bool]) -> Any:
    def loss(model: Counts, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(-model(x) if counts(model) else model(x), y)

    return classify(Counts(), loss=loss)


NUMBERS = (
    *(in_a_class, in_a_function, in_a_default, in_a_module, in_a_slot, in_a_namespace),
    *(in_a_dict_of_a_dict, in_a_new_attribute, under_a_new_key),
)
REFUSED = in_a_list_of_a_default, in_a_list_of_a_tuple, in_an_order


@pytest.mark.parametrize("counts", NUMBERS)
def test_a_number_that_decides_is_a_buffer(counts: Any, tmp_path: pathlib.Path) -> None:
    exported = export(deciding(counts), tmp_path)
    assert any("with which it computes: a buffer" in text for text in exported.notes)
    changed = exported.results("buffer_update")
    assert len([name for name in changed if name.startswith("fsdp.python")]) == 1


@pytest.mark.provokes("FSDP-E0207")
@pytest.mark.parametrize("counts", REFUSED)
def test_another_count_is_refused(counts: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ExportError, match=r"(test_hidden_state.py:\d+|model\.\w+)\b.* Python"):
        export(deciding(counts), tmp_path)


def test_a_decision_by_an_object_of_a_notebook(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    seen = OfANotebook()

    def counts(m: Counts) -> bool:
        seen.count += 1
        return seen.count > 50

    notes = export(deciding(counts), tmp_path).notes
    assert any("the step changes seen.count, with which it computes" in text for text in notes)


def test_what_cannot_be_set_is_left(tmp_path: pathlib.Path) -> None:
    """A frozen object that the step makes, and a property that hides a slot."""
    made: dict[str, Settings] = {}

    def loss(model: Counts, x: Tensor, y: Tensor) -> Tensor:
        made.setdefault("settings", Settings(1))
        return F.cross_entropy(model(x), y)

    (warning,) = export(classify(Counts(), loss=loss), tmp_path).warnings
    assert "Python state of a variable around loss" in warning
    assert not made


@pytest.mark.parametrize("counts", [in_a_text, in_an_array])
def test_what_cannot_be_watched_is_a_warning(counts: Any, tmp_path: pathlib.Path) -> None:
    (warning,) = export(deciding(counts), tmp_path).warnings
    assert "the exported step keeps the value of now" in warning

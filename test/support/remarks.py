"""The registry of remarks, lib/Transforms/Remarks.def."""

from __future__ import annotations

import ast
import functools
import re
from typing import NamedTuple

from support import chain

_REGISTRY = chain.ROOT / "lib/Transforms/Remarks.def"
_METRIC = re.compile(r"^METRIC\((\w+), (\".*?\"), (\w+), (\".*\")\)$", re.MULTILINE)
_REMARK = re.compile(r"^REMARK\(\w+, (\".*?\"), (\".*?\"), (\".*?\")((?:, \w+)*)\)$", re.MULTILINE)


class Metric(NamedTuple):
    name: str  # in C++
    key: str
    unit: str
    meaning: str


class Kind(NamedTuple):
    category: str  # of a decision: the pass
    name: str
    meaning: str
    keys: tuple[str, ...]  # of its figures

    @property
    def short(self) -> str:
        """PASS.REMARK, without fsdp-."""
        return f"{self.category.removeprefix('fsdp-')}.{self.name}"


def python_name(name: str) -> str:
    """What a name of C++ is in Python."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


@functools.cache
def metrics() -> dict[str, Metric]:
    """By their names in C++."""
    text = _REGISTRY.read_text()
    found = {
        name: Metric(name, ast.literal_eval(key), unit, ast.literal_eval(meaning))
        for name, key, unit, meaning in _METRIC.findall(text)
    }
    assert len(found) == text.count("\nMETRIC(")
    assert len({metric.key for metric in found.values()}) == len(found)
    return found


@functools.cache
def kinds() -> list[Kind]:
    """In the order of the passes; the last one says what a pass changed."""
    text = _REGISTRY.read_text()
    found = [
        Kind(
            *map(ast.literal_eval, texts),
            keys=tuple(metrics()[name].key for name in names.split(", ")[1:]),
        )
        for *texts, names in _REMARK.findall(text)
    ]
    assert len(found) == text.count("\nREMARK(")
    assert len({kind.short for kind in found}) == len(found)
    return found


@functools.cache
def decisions() -> dict[str, Kind]:
    """Those that a pass takes, by PASS.REMARK."""
    return {kind.short: kind for kind in kinds() if kind.name}

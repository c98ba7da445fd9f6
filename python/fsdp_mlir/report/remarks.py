"""Reads the remarks of fsdp-opt: `--remark-format=yaml`, as LLVM writes it.

Each document is one decision: whether it was taken (`!Passed`) or not (`!Missed`), by which pass,
and its figures in the order in which the pass gave them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator


@dataclass
class Remark:
    """One decision. `figures` are (name, value) pairs, without the text."""

    taken: bool
    by: str  # the pass
    name: str
    function: str
    text: str = ""
    figures: list[tuple[str, str]] = field(default_factory=list)


def read_remarks(path: Path) -> list[Remark]:
    """The remarks of a file, in order.

    Raises:
        ValueError: the file is not what LLVM's remarks are.
    """
    return list(_documents(path.read_text(encoding="utf-8", errors="replace").splitlines()))


def _documents(lines: list[str]) -> Iterator[Remark]:
    remark = None
    for number, line in enumerate(lines, 1):
        if line.startswith("--- !"):
            remark = Remark(line[5:].strip() == "Passed", "", "", "")
        elif line == "..." and remark is not None:
            yield remark
            remark = None
        elif remark is None or ":" not in line:
            raise ValueError(f"line {number} is no part of a remark")
        else:
            _entry(remark, line)
    if remark is not None:
        raise ValueError("it ends within a remark")


def _entry(remark: Remark, line: str) -> None:
    key, _, value = line.partition(":")
    value = _scalar(value.strip())
    if key.startswith("  - "):
        # Streamed text is in pieces, each of them a `Remark` or a `String`.
        if (name := key[4:]) in ("Remark", "String"):
            remark.text += value
        else:
            remark.figures.append((name, value))
    elif key == "Pass":
        remark.by = value
    elif key == "Name":
        remark.name = value
    elif key == "Function" and not value.startswith("<unknown"):
        remark.function = value


def _scalar(text: str) -> str:
    """A YAML scalar of one line: plain, or in single or double quotes."""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1].replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
    return text

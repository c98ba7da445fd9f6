"""The catalogue of errors, runtime/Errors.def."""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import subprocess
from typing import Any, Iterator, NamedTuple

from fsdp_mlir import errors
from support import chain

_CATALOGUE = chain.ROOT / "runtime/Errors.def"
_ENTRY = re.compile(r"^ERROR\((\d+), (\w+), (\".*\")\)$", re.MULTILINE)


class Kind(NamedTuple):
    number: int
    name: str  # in C++
    title: str
    cause: str
    mending: str

    @property
    def identifier(self) -> str:
        return f"FSDP-E{self.number:04}"

    @property
    def python(self) -> str:
        """The name in Python."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).upper()


@functools.cache
def kinds() -> list[Kind]:
    """In the order of their numbers."""
    found = [
        Kind(int(number), name, *ast.literal_eval(f"({texts})"))
        for number, name, texts in _ENTRY.findall(_CATALOGUE.read_text())
    ]
    assert len(found) == _CATALOGUE.read_text().count("\nERROR(")
    return sorted(found)


def section(kind: Kind) -> str:
    """Which of the catalogue's sections it stands in: the comment before it."""
    before = _CATALOGUE.read_text().partition(f"ERROR({kind.number}, ")[0]
    return re.findall(r"^// (.+)\.$", before, re.MULTILINE)[-1]


@contextlib.contextmanager
def seen() -> Iterator[set[str]]:
    """Collects the identifiers of the errors whose text this process reads, and of those that
    programs print which it runs to their end."""
    found: set[str] = set()
    read, end = errors.identified, subprocess.CompletedProcess.__init__

    def identified(kind: errors.E, message: str) -> str:
        found.add(kind.identifier)
        return read(kind, message)

    def ended(self: Any, *args: Any, **options: Any) -> None:
        end(self, *args, **options)
        for text in (self.stdout, self.stderr):
            found.update(re.findall(r"FSDP-E\d{4}", text if isinstance(text, str) else ""))

    errors.identified = identified
    subprocess.CompletedProcess.__init__ = ended  # type: ignore[method-assign]
    try:
        yield found
    finally:
        errors.identified = read
        subprocess.CompletedProcess.__init__ = end  # type: ignore[method-assign]

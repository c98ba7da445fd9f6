"""Small pieces of HTML. What comes from a run is escaped here and nowhere else."""

from __future__ import annotations

import contextlib
import contextvars
import html
import re
from typing import Any, Iterable, Iterator, Optional, Sequence, Union

from ..untrusted import seen

# Rows that a long table shows before the rest is folded.
_SHOWN = 12
# Characters of a cell from which on it is a sentence.
_LONG = 60
# Rows that a list has at most: fewer where the page would be too long.
_most_rows = contextvars.ContextVar("_most_rows", default=400)

Cell = Union[str, int, float, "Markup"]


class Markup(str):
    """Text that is HTML already."""


def text(value: Cell) -> Markup:
    """A value with what HTML would read as its own replaced."""
    return value if isinstance(value, Markup) else Markup(html.escape(seen(str(value))))


def tag(name: str, *content: Cell, **attributes: str) -> Markup:
    """An element; `class_` is the attribute `class`, and `_` in names is `-`."""
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(seen(value))}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{named}>{''.join(text(part) for part in content)}</{name}>")


def joined(parts: Iterable[Cell]) -> Markup:
    return Markup("".join(text(part) for part in parts))


def _kind(cell: Cell, is_figure: bool) -> dict[str, str]:
    """The class of a cell: of sentences, so that they do not become a column of words."""
    if is_figure:
        return {"class_": "number"}
    is_long = len(re.sub(r"<[^>]*>", "", str(cell))) > _LONG
    return {"class_": "long"} if is_long else {}


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    numbers: Sequence[int] = (),
    caption: Optional[str] = None,
) -> Markup:
    """A table that scrolls by itself where the page is narrow; `numbers` are columns of figures."""

    def cells(name: str, row: Sequence[Cell]) -> Markup:
        return joined(tag(name, cell, **_kind(cell, i in numbers)) for i, cell in enumerate(row))

    head = tag("thead", tag("tr", cells("th", heads)))
    body = tag("tbody", joined(tag("tr", cells("td", row)) for row in rows))
    title = tag("caption", caption) if caption else Markup("")
    # A region that scrolls must be reachable with the keyboard.
    label = caption or ", ".join(heads)
    return tag(
        "div",
        tag("table", title, head, body),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=label,
    )


def folded(summary: Cell, *content: Cell) -> Markup:
    return tag("details", tag("summary", summary), *content)


def long_table(
    heads: Sequence[str], rows: Sequence[Sequence[Cell]], numbers: Sequence[int]
) -> Markup:
    """A table, of which all but the first rows are folded."""
    first = table(heads, rows[:_SHOWN], numbers=numbers)
    rest = listed(rows)[_SHOWN:]
    if len(rows) <= _SHOWN:
        return first
    left = f"{len(rows) - _SHOWN:,} more"
    if len(listed(rows)) < len(rows):
        left += f", of which {len(rest):,} are listed"
    return joined((first, folded(left, table(heads, rest, numbers=numbers))))


@contextlib.contextmanager
def rows_at_most(count: int) -> Iterator[None]:
    """Within it, a list is written with at most so many rows."""
    token = _most_rows.set(count)
    try:
        yield
    finally:
        _most_rows.reset(token)


def listed(rows: Sequence[Any]) -> Sequence[Any]:
    """The rows of a list that the page has room for."""
    return rows[: _most_rows.get()]


def left_out(rows: Sequence[Any], where: str) -> str:
    """The words after a list's name: none, or how many rows are listed and where all are."""
    if len(listed(rows)) == len(rows):
        return ""
    return f" (the first {len(listed(rows)):,} are listed; all are in {where})"

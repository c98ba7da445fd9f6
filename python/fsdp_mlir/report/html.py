"""Small pieces of HTML. What comes from a run is escaped here and nowhere else."""

from __future__ import annotations

import html
from typing import Iterable, Optional, Sequence, Union

# Rows that a long table shows before the rest is folded, and at most.
_SHOWN, _MOST_ROWS = 12, 400

Cell = Union[str, int, float, "Markup"]


class Markup(str):
    """Text that is HTML already."""


def text(value: Cell) -> Markup:
    """A value with what HTML would read as its own replaced."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def tag(name: str, *content: Cell, **attributes: str) -> Markup:
    """An element; `class_` is the attribute `class`, and `_` in names is `-`."""
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{named}>{''.join(text(part) for part in content)}</{name}>")


def joined(parts: Iterable[Cell]) -> Markup:
    return Markup("".join(text(part) for part in parts))


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    numbers: Sequence[int] = (),
    caption: Optional[str] = None,
) -> Markup:
    """A table that scrolls by itself where the page is narrow; `numbers` are columns of figures."""

    def cells(name: str, row: Sequence[Cell]) -> Markup:
        return joined(
            tag(name, cell, **({"class_": "number"} if i in numbers else {}))
            for i, cell in enumerate(row)
        )

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
    rest = rows[_SHOWN:_MOST_ROWS]
    if not rest:
        return first
    left = f"{len(rows) - _SHOWN:,} more" + (
        f", of which {len(rest):,} are listed" if len(rows) > _MOST_ROWS else ""
    )
    return joined((first, folded(left, table(heads, rest, numbers=numbers))))

"""Numbers as people read them."""

from __future__ import annotations

import math
import re
import statistics
from typing import Any, Iterable, Optional


def of_bytes(value: float) -> str:
    """ "1.25 MiB"; below a KiB, whole bytes."""
    if value < 1024:
        return f"{value:,.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024 or unit == "GiB":
            break
    return f"{value:,.2f} {unit}"


def of_time(microseconds: float) -> str:
    """ "12.3 µs", "1.23 ms" or "1.23 s"."""
    if microseconds < 1000:
        return f"{microseconds:.1f} µs"
    if microseconds < 1e6:
        return f"{microseconds / 1e3:.2f} ms"
    return f"{microseconds / 1e6:.2f} s"


def with_micro(said: str) -> str:
    """A time that the compiler writes in ASCII, "17.0 us", as the page writes it."""
    return re.sub(r"(\d) us\b", "\\1 µs", said)


def is_number(value: Any) -> bool:
    """Whether a metric's value is a finite number. What is not finite is null."""
    return isinstance(value, (int, float)) and math.isfinite(value)


def values(rows: Iterable[dict[str, Any]], key: str) -> list[float]:
    """What the rows have for `key`, where it is a finite number."""
    return [row[key] for row in rows if is_number(row.get(key))]


def median(rows: Iterable[dict[str, Any]], key: str) -> Optional[float]:
    """The middle one, of which the first steps, in which memory is learned, are no example."""
    found = values(rows, key)
    return statistics.median(found[2:] or found) if found else None

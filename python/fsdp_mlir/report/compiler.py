"""What the compiler did: what each pass changed, and what was decided."""

from __future__ import annotations

from typing import Any

from .facts import Run
from .figures import of_bytes
from .html import Cell, Markup, folded, joined, left_out, listed, table, tag
from .remarks import Remark

# The remarks that count what a pass changed; decisions have their pass's name here.
_CHANGES = "changes"


def changes(run: Run) -> Markup:
    """A row for each pass, in the order in which they ran."""
    found = [remark for remark in run.remarks if remark.by == _CHANGES]
    if not found:
        return tag("p", "The folder has no remarks that count what passes changed.")
    rows = []
    for remark in found:
        figures = dict(remark.figures)
        rows.append(
            (
                remark.name,
                _change(figures, "ops"),
                figures.get("added", ""),
                figures.get("removed", ""),
                figures.get("moved", ""),
                _change(figures, "state_bytes"),
                _change(figures, "collective_bytes"),
                _change(figures, "peak_bytes"),
            )
        )
    unchanged = sum(not remark.figures for remark in found)
    heads = ("pass", "ops", "more", "fewer", "moved", "states", "collectives", "peak")
    return joined(
        (
            tag(
                "p",
                f"{len(found)} passes ran, in this order; {unchanged} of them left these counts as they were: they check the programs, or write on ops what later ones read. The ops are those of all programs. Bytes are a rank's for states and the peak, and whole tensors for collectives.",
            ),
            table(heads, rows, numbers=(1, 4, 5, 6, 7)),
        )
    )


def _change(figures: dict[str, str], name: str) -> str:
    before, after = figures.get(f"{name}_before"), figures.get(f"{name}_after")
    if before is None or after is None:
        return ""
    if name == "peak_bytes" and before == "0":
        return _figure(name, after)
    return f"{_figure(name, before)} → {_figure(name, after)}"


def decisions(run: Run) -> Markup:
    """Every decision, by pass, in the order in which the passes ran."""
    passes: dict[str, list[Remark]] = {}
    for remark in run.remarks:
        if remark.by != _CHANGES:
            passes.setdefault(remark.by, []).append(remark)
    if not passes:
        return tag("p", "The folder has no remarks of the compiler.")
    total = sum(map(len, passes.values()))
    parts: list[Cell] = [
        tag(
            "p",
            f"{total:,} decisions of {len(passes)} passes, with the figures that decided them.",
        )
    ]
    for name, remarks in passes.items():
        missed = sum(not remark.taken for remark in remarks)
        rows = [_decision(remark) for remark in listed(remarks)]
        count = f"{name}: {len(remarks):,}" + (f", {missed:,} not taken" if missed else "")
        count += left_out(remarks, "step.remarks.yaml")
        parts.append(folded(count, table(("", "program", "decision", "what", "figures"), rows)))
    return joined(parts)


def _decision(remark: Remark) -> tuple[Any, ...]:
    return (
        "taken" if remark.taken else "not taken",
        remark.function,
        remark.name,
        remark.text,
        ", ".join(f"{key} {_figure(key, value)}" for key, value in remark.figures),
    )


def _figure(name: str, value: str) -> str:
    if name == "unit" and not value:
        return "root"
    if name.lower().endswith("bytes") and value.isdigit():
        return of_bytes(int(value))
    return value

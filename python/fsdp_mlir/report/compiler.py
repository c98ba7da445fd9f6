"""What the compiler did: what each pass changed, and what was decided."""

from __future__ import annotations

from typing import Any

from ..remark_kinds import CHANGES, UNITS, M, Unit
from .facts import Run
from .figures import of_bytes
from .html import Cell, Markup, folded, joined, left_out, listed, table, tag
from .remarks import Remark


def changes(run: Run) -> Markup:
    """A row for each pass, in the order in which they ran."""
    found = [remark for remark in run.remarks if remark.by == CHANGES]
    if not found:
        return tag("p", "The folder has no remarks that count what passes changed.")
    rows = []
    for remark in found:
        figures = dict(remark.figures)
        rows.append(
            (
                remark.name,
                _change(figures, M.OPS_BEFORE, M.OPS_AFTER),
                figures.get(M.ADDED.value, ""),
                figures.get(M.REMOVED.value, ""),
                figures.get(M.MOVED.value, ""),
                _change(figures, M.STATE_BYTES_BEFORE, M.STATE_BYTES_AFTER),
                _change(figures, M.COLLECTIVE_BYTES_BEFORE, M.COLLECTIVE_BYTES_AFTER),
                _change(figures, M.PEAK_BYTES_BEFORE, M.PEAK_BYTES_AFTER),
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


def _change(figures: dict[str, str], in_front: M, behind: M) -> str:
    before, after = figures.get(in_front.value), figures.get(behind.value)
    if before is None or after is None:
        return ""
    if in_front is M.PEAK_BYTES_BEFORE and before == "0":
        return _figure(behind.value, after)
    return f"{_figure(in_front.value, before)} → {_figure(behind.value, after)}"


def decisions(run: Run) -> Markup:
    """Every decision, by pass, in the order in which the passes ran."""
    passes: dict[str, list[Remark]] = {}
    for remark in run.remarks:
        if remark.by != CHANGES:
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
    if name == M.UNIT.value and not value:
        return "root"
    # A folder may be of another version, with figures that are unknown here.
    if UNITS.get(name) is Unit.BYTES and value.isdigit():
        return of_bytes(int(value))
    return value

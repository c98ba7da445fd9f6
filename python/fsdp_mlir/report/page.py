"""Puts the page together: text from `sections`, the pictures' data for `page.js`."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from ..errors import E
from ..untrusted import descriptor_at, open_to_write, seen
from . import compiler, over_time, sections
from .facts import ReportError, Run
from .html import Cell, Markup, joined, rows_at_most, tag
from .timeline import MOST_BARS, Timeline, drawn, timeline

_HERE = Path(__file__).parent
# Longer pages open slowly, and mail does not take them.
MOST_BYTES = 5 << 20
# Rows of a list and bars of the picture, for runs that are larger and larger.
_DETAILS = ((400, MOST_BARS), (400, MOST_BARS // 4), (100, MOST_BARS // 16), (20, MOST_BARS // 64))


def write_report(run: Run, target: Path) -> None:
    """Writes the page, whole or not at all.

    Raises:
        ReportError: it cannot be written.
    """
    try:
        text = page(run)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        # Of fields that the programs write in another form, or not at all.
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ReportError(
            E.RUN_FOLDER,
            f"the trace, metrics or summary of {run.folder} is not as fsdp-run writes it ({what}); "
            "run the plan again, or take the file away",
        ) from error
    try:
        write_whole(text, target)
    except OSError as error:
        raise ReportError(
            E.FILE_UNWRITABLE, f"{target} cannot be written: {error.strerror}"
        ) from error


def write_whole(text: str, target: Path) -> None:
    """Writes a file whole or not at all. A link leads to a device or a pipe alone, which nothing
    replaces; any other one is replaced. Raises OSError."""
    is_file = target.is_file() and descriptor_at(target) is None
    if target.exists() and not is_file:
        with open_to_write(target) as file:
            file.write(text.encode())
        return
    scratch = target.parent / f".report-{os.getpid()}"
    scratch.unlink(missing_ok=True)
    handle, is_named = _nameless(scratch)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            if not is_named:
                # With a folder, though none is needed, Python follows the link.
                os.link(f"/proc/self/fd/{handle}", scratch, src_dir_fd=handle)
        os.replace(scratch, target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def _nameless(scratch: Path) -> tuple[int, bool]:
    """A new file without a name, of which nothing is left where this process is killed; or, where
    the file system has none, one of this name: True."""
    with contextlib.suppress(OSError):
        return os.open(scratch.parent, os.O_TMPFILE | os.O_WRONLY, 0o666), False
    return os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), True


def page(run: Run) -> str:
    """The page, with as much detail as keeps it below `MOST_BYTES`."""
    shown, text = timeline(run.trace), ""
    for rows, bars in _DETAILS:
        with rows_at_most(rows):
            text = _page(run, shown, bars)
        if len(text.encode()) <= MOST_BYTES:
            break
    return text


def _page(run: Run, shown: Timeline, bars: int) -> str:
    picture = drawn(shown, bars)
    parts: list[tuple[str, str, Cell]] = [
        ("run", "The run", joined((sections.tiles(run, shown), sections.setting(run)))),
        ("progress", "Loss and throughput", sections.progress(run)),
        ("schedule", "Schedule", over_time.schedule(run, shown, picture)),
        ("exposed", "Exposed communication", over_time.exposed(run, shown)),
        ("memory", "Memory", over_time.memory(run)),
        ("units", "Units and shards", sections.units(run)),
        ("changes", "What each pass changed", compiler.changes(run)),
        ("decisions", "Decisions", compiler.decisions(run)),
        ("certificate", "Certificate", sections.certificate(run)),
    ]
    title = sections.title(run)
    notes = (
        tag("ul", joined(tag("li", note) for note in run.notes), class_="notes")
        if run.notes
        else ""
    )
    body = joined(
        (
            tag("a", "to the figures", href="#run", class_="skip"),
            tag(
                "header",
                tag("h1", title),
                tag(
                    "nav",
                    joined(tag("a", name, href=f"#{key}") for key, name, _ in parts),
                    aria_label="sections",
                ),
            ),
            tag(
                "main",
                notes,
                joined(
                    tag("section", tag("h2", name), content, id=key) for key, name, content in parts
                ),
            ),
            tag(
                "script",
                Markup(_embedded(_facts(run, picture))),
                type="application/json",
                id="facts",
            ),
            tag("script", Markup(_file("page.js"))),
        )
    )
    head = joined(
        (
            Markup(
                '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            ),
            tag("title", title),
            tag("style", Markup(_file("page.css"))),
        )
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _facts(run: Run, shown: Timeline) -> dict[str, Any]:
    """The facts that pictures are drawn from, and that tests compare with the programs' own figures."""
    return {
        "plan": run.plan["plan"],
        "predicted_us": sections.predicted_us(run),
        "exposed_us": sections.exposed_us(run),
        "live_bytes": sections.live_bytes(run),
        "commands": [
            {key: seen(said) if isinstance(said, str) else said for key, said in row.items()}
            for row in shown.commands
        ],
        "processes": [
            {
                "name": bars.name,
                "step": bars.step,
                "length": bars.length,
                "exposed": bars.exposed_ns,
                "lanes": [{"name": name, "bars": bars_} for name, bars_ in bars.lanes],
                "memory": bars.memory,
            }
            for bars in shown.processes
        ],
    }


def _embedded(facts: dict[str, Any]) -> str:
    """JSON that no name can end early."""
    return json.dumps(facts, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")

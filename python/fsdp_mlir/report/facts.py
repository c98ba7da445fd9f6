"""What is known of a run, from the files that its programs wrote."""

from __future__ import annotations

import json
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional

from ..errors import E, Identified
from ..driver.stages import StageError, find_tools
from ..untrusted import parse_json, read_regular
from .remarks import Remark, read_remarks

Json = dict[str, Any]

# What takes more memory than a page is worth.
_MOST_BYTES = 4 << 30


class ReportError(Identified):
    """A folder of which no report can be made; the message says what to do."""


@dataclass
class Run:
    """One run's facts.

    Attributes:
        plan: what `fsdp-translate --plan-to-json` says (docs/report.md).
        trace: a trace, with the prediction and, where `measured`, the ranks.
        rows: the lines of metrics, evaluations among them (docs/metrics.md).
        summary: what `fsdp-run --summary` wrote, or None.
        settings: the resolved settings of the driver, or None.
        notes: what is missing from the page and why.
    """

    folder: Path
    plan: Json
    trace: Json
    measured: bool
    rows: list[Json] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    summary: Optional[Json] = None
    settings: Optional[Json] = None
    notes: list[str] = field(default_factory=list)


def read_run(folder: Path, metrics: Optional[Path] = None, trace: Optional[Path] = None) -> Run:
    """Reads the folder of a run: `step.plan`, and what else is there of `metrics.jsonl`,
    `trace.json`, `summary.json`, `step.remarks.yaml` and `run.toml`.

    Raises:
        ReportError: there is no plan, or it or another file is not what it should be.
    """
    plan_file = folder / "step.plan"
    if not plan_file.is_file():
        raise ReportError(
            E.RUN_FOLDER,
            f"{folder} has no step.plan; give the folder of a run, as `python -m fsdp_mlir.train` "
            "leaves it (out/NAME)",
        )
    plan = json.loads(_translate("--plan-to-json", plan_file))
    notes: list[str] = []
    measured = _own_trace(trace or folder / "trace.json", plan, notes, given=trace is not None)
    run = Run(
        folder,
        plan,
        measured or json.loads(_translate("--plan-to-trace", plan_file)),
        measured is not None,
        notes=notes,
    )
    run.rows = _rows(metrics or folder / "metrics.jsonl", notes, given=metrics is not None)
    if (path := folder / "step.remarks.yaml").is_file():
        try:
            run.remarks = read_remarks(path)
        except ValueError as error:
            raise ReportError(E.RUN_FOLDER, f"{path}: {error}; compile the step again") from error
    else:
        notes.append("No decisions: the folder has no step.remarks.yaml.")
    summary = _parsed(folder / "summary.json", parse_json)
    if summary is not None and summary.get("plan") != plan["plan"]:
        notes.append("summary.json is of another plan, and left out.")
        summary = None
    run.summary = summary
    run.settings = _parsed(folder / "run.toml", tomllib.loads)
    return run


def _translate(flag: str, plan: Path) -> str:
    try:
        tool = find_tools()["fsdp-translate"]
    except StageError as error:
        raise ReportError(error.kind, error.message) from error
    done = subprocess.run(
        [tool, flag, plan], capture_output=True, encoding="utf-8", errors="replace"
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise ReportError(None, f"fsdp-translate {flag}: {lines[-1].removeprefix('error: ')}")
    return done.stdout


def _own_trace(path: Path, plan: Json, notes: list[str], given: bool) -> Optional[Json]:
    """A measured trace, where there is one of this plan."""
    trace = _parsed(path, parse_json)
    if trace is None:
        if given:
            raise ReportError(E.RUN_FOLDER, f"{path}: no such trace")
        notes.append("Nothing was measured: the folder has no trace.json (--trace writes it).")
        return None
    try:
        is_ours = trace["otherData"]["plan"] == plan["plan"]
        names = [e for e in trace["traceEvents"] if e["name"] == "process_name"]
        is_measured = any("rank" in e["args"] for e in names)
    except (KeyError, TypeError) as error:
        raise ReportError(
            E.RUN_FOLDER, f"{path} is no trace of fsdp-run; give what --trace wrote"
        ) from error
    if not is_ours:
        notes.append(f"{path.name} is of another plan, and left out.")
    return trace if is_ours and is_measured else None


def _rows(path: Path, notes: list[str], given: bool) -> list[Json]:
    text = _content(path)
    if text is None:
        if given:
            raise ReportError(E.RUN_FOLDER, f"{path}: no such metrics")
        notes.append("No losses: the folder has no metrics.jsonl.")
        return []
    lines = text.decode(errors="replace").splitlines()
    rows = []
    for line in lines:
        try:
            row = parse_json(line)
        except ValueError:
            continue  # a run that was killed ends within a line
        if isinstance(row, dict) and type(row.get("step")) is int:
            rows.append(row)
    if given and lines and not rows:
        raise ReportError(E.RUN_FOLDER, f"{path} has no metrics; give what --metrics wrote")
    return rows


def _content(path: Path) -> Optional[bytes]:
    """The bytes of a file; None: there is none."""
    try:
        return read_regular(path, _MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ReportError(E.RUN_FOLDER, f"{path} cannot be read: {error.strerror}") from error


def _parsed(path: Path, parse: Callable[[str], Json]) -> Optional[Json]:
    """The contents of a JSON or TOML file; None where there is no file."""
    content = _content(path)
    if content is None:
        return None
    try:
        parsed = parse(content.decode())
        if not isinstance(parsed, dict):
            raise ValueError("it has no fields")
    except (ValueError, RecursionError) as error:
        raise ReportError(E.RUN_FOLDER, f"{path} cannot be read: {error}") from error
    return parsed

"""Tests that pages say of GPUs what is so: docs/gpu.md what test/gpu/results shows, and no more;
docs/troubleshooting.md what programs say."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from gpu import machine, rows
from gpu.cases import ROOT

RESULTS = pathlib.Path(__file__).with_name("results")
_TABLE = re.compile(r"<!-- gpu support -->\n(.*?)<!-- end -->", re.DOTALL)
_STATE = re.compile(r"(?:compiled, not yet run(?:; tested by imitation)?|run on (?P<gpu>[^;|]+))")


def claims(page: str) -> dict[str, str]:
    """The state of each row of the script, as the table says it."""
    (table,) = _TABLE.findall(page)
    cells = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {row.strip("`"): state for _, state, row in cells}


def shown(results: pathlib.Path) -> dict[str, set[str]]:
    """By GPU, the rows that passed on it."""
    found: dict[str, set[str]] = {}
    for path in results.glob("*.json"):
        if path.name.endswith(".bench.json"):
            continue
        run: dict[str, Any] = json.loads(path.read_text())
        assert run["gpu"] and path.stem == machine.slug(run["gpu"]), path
        passed = {name for name, row in run["rows"].items() if row["verdict"] == rows.PASS}
        found[run["gpu"]] = passed
    return found


def disagreements(page: str, results: pathlib.Path) -> list[str]:
    """What the table says and no result shows, or the other way round."""
    passed = shown(results)
    wrong = []
    for row, state in claims(page).items():
        matched = _STATE.fullmatch(state)
        if not matched:
            wrong.append(f"{row}: {state!r} is no state")
        elif (gpu := matched["gpu"]) and row not in passed.get(gpu, ()):
            wrong.append(f"{row}: no result of {gpu} shows it")
        elif not gpu and any(row in rows_ for rows_ in passed.values()):
            wrong.append(f"{row}: a result shows more than {state!r}")
    return wrong


@pytest.mark.quick
def test_the_page_claims_what_was_run() -> None:
    page = (ROOT / "docs/gpu.md").read_text()
    assert list(claims(page)) == list(rows.ROWS)
    assert disagreements(page, RESULTS) == []


PAGE = (
    "<!-- gpu support -->\n| on | state | row |\n|---|---|---|\n| x | {} | `nccl` |\n<!-- end -->"
)


@pytest.mark.parametrize(
    "state, verdict, agrees",
    [
        ("compiled, not yet run", "FAIL", True),
        ("compiled, not yet run; tested by imitation", "SKIP", True),
        ("compiled, not yet run", "PASS", False),
        ("run on NVIDIA H100", "PASS", True),
        ("run on NVIDIA H100", "FAIL", False),
        ("run on NVIDIA H200", "PASS", False),
        ("works", "PASS", False),
    ],
)
def test_a_claim_needs_its_result(
    state: str, verdict: str, agrees: bool, tmp_path: pathlib.Path
) -> None:
    run = {"gpu": "NVIDIA H100", "rows": {"nccl": {"verdict": verdict}}}
    (tmp_path / "nvidia-h100.json").write_text(json.dumps(run))
    (tmp_path / "nvidia-h100.bench.json").write_text("{}")
    assert (disagreements(PAGE.format(state), tmp_path) == []) == agrees


_ERRORS = re.compile(r"<!-- gpu errors -->\n(.*?)<!-- end -->", re.DOTALL)


def test_errors_are_quoted_as_programs_say_them() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    (table,) = _ERRORS.findall(page)
    quotes = [
        quote
        for line in table.splitlines()[2:]
        for quote in re.findall("`([^`]+)`", line.split(" | ")[0])
    ]
    folders = [ROOT / "runtime", ROOT / "tools"]
    files = [
        file for folder in folders for end in ("cpp", "h") for file in folder.rglob(f"*.{end}")
    ]
    # Literals that stand below each other are one.
    said = "".join(re.sub(r'"\s*\n\s*"', "", file.read_text()) for file in files)
    assert quotes and [quote for quote in quotes if quote not in said] == []

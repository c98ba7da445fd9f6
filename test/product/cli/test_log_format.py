"""Tests that `fsdp-run --log-format json` prints an object per line, as the driver does."""

from __future__ import annotations

import json
import pathlib

from support import chain


def test_a_program_is_told_what_metrics_have(
    compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    metrics = tmp_path / "metrics.jsonl"
    command = [*chain.run_arguments(compiled, 4), "--nproc", "2", "--metrics", metrics]
    done = chain.command([*map(str, command), "--log-interval", "2", "--log-format", "json"])
    begin, note, *told = [json.loads(line) for line in done.stdout.splitlines()]
    assert (begin["event"], begin["ranks"], begin["steps"]) == ("run", 2, 4)
    assert note["event"] == "note" and "samples of each epoch are left out" in note["text"]
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == [2, 4]
    kinds = ["step" if "loss" in row else "evaluation" for row in rows]
    assert told == [{**row, "event": kind} for row, kind in zip(rows, kinds)]

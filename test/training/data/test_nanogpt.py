"""Tests that nanoGPT's own script becomes a step file, and a loop of its own, by few changes."""

from __future__ import annotations

import difflib
import json
import pathlib
import runpy
import sys

import pytest
import torch

from support import chain

NANOGPT = pathlib.Path(__file__).parent / "nanogpt"


def losses_of_driver(out: pathlib.Path, data: pathlib.Path) -> list[str]:
    words = ["-m", "fsdp_mlir.train", "--out", out, "--no-cache", "--cache-dir", out / "cache"]
    env = chain.environment(DATA_DIR=str(data), OMP_NUM_THREADS="1")
    chain.command([sys.executable, *words, "--no-report", NANOGPT / "step.py"], env=env)
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [f"iter {row['step'] - 1}: loss {row['loss']!r}" for row in rows]


def test_nanogpts_script_needs_few_changes(
    tokens,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its model, get_batch, schedule and loop; the losses are its own, digit for digit, by the
    driver and in its own loop."""
    (tmp_path / "train.bin").symlink_to(tokens)

    def printed(script: str, *arguments: pathlib.Path) -> list[str]:
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        capsys.readouterr()
        runpy.run_path(str(NANOGPT / script))
        return capsys.readouterr().out.splitlines()

    monkeypatch.syspath_prepend(NANOGPT)
    monkeypatch.delitem(sys.modules, "model", raising=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        eager = printed("train.py", tmp_path)
        own = printed("loop.py", tmp_path, tmp_path / "loop")
    finally:
        torch.set_num_threads(threads)
        sys.modules.pop("model", None)
    assert len(eager) == 8 and own == eager
    assert losses_of_driver(tmp_path / "driver", tmp_path) == eager
    before = (NANOGPT / "train.py").read_text().splitlines()
    for script in ("step.py", "loop.py"):
        changed = difflib.ndiff(before, (NANOGPT / script).read_text().splitlines())
        assert len([l for l in changed if l.startswith("+") and l[1:].strip()]) <= 25

"""Runs of one plan that go on from each other's checkpoints."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

import torch
from safetensors.torch import load_file

from support import chain

#: Of a row of metrics: what is of the run, and not of the clock.
FACTS = ("step", "epoch", "loss", "lr", "eval_loss")


class Runs:
    """What they have in common, and where they write."""

    def __init__(self, compiled: chain.Compiled, nproc: int, folder: pathlib.Path):
        self.compiled, self.nproc, self.folder = compiled, nproc, folder
        self.checkpoints = folder / "checkpoints"
        self.metrics, self.saved = folder / "metrics.jsonl", folder / "saved.safetensors"

    def command(self, *extra: Any, threads: bool = False) -> list[str]:
        """Of a run with checkpoints that goes on where one was."""
        command = chain.run_arguments(self.compiled)
        command += ["--eval-data", str(self.compiled.eval_data), "--nproc", str(self.nproc)]
        command += ["--metrics", str(self.metrics), "--save", str(self.saved)]
        command += ["--checkpoint-dir", str(self.checkpoints), "--resume", "auto"]
        return [*command, *(["--threads"] if threads else []), *map(str, extra)]

    def train(self, *extra: Any, threads: bool = True) -> str:
        """To the end; what it printed."""
        done = chain.command(self.command(*extra, threads=threads))
        return done.stdout + done.stderr

    def start(self, *extra: Any) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=chain.environment(),
        )

    def steps(self) -> list[int]:
        """That have a checkpoint."""
        return sorted(int(path.name[5:]) for path in self.checkpoints.glob("step-????????"))

    def rows(self) -> list[dict[str, Any]]:
        if not self.metrics.exists():
            return []
        rows = []
        for line in self.metrics.read_text().splitlines():
            row = json.loads(line)
            rows.append({name: row[name] for name in FACTS if name in row})
        return rows


def assert_same(one: Runs, other: Runs, rows: bool = True) -> None:
    """Two runs that ended gave the same bits."""
    if rows:
        assert one.rows() == other.rows()
    ours, theirs = load_file(one.saved), load_file(other.saved)
    assert sorted(ours) == sorted(theirs)
    differences = {
        name: (value.double() - theirs[name].double()).abs().max().item()
        for name, value in ours.items()
        if not torch.equal(value, theirs[name])
    }
    assert not differences

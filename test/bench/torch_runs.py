"""A PyTorch contestant: workers that live until the end and wait between their turns."""

from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
import sys
from typing import Any

from bench.contestants import Contestant
from bench.files import Files
from bench.models import Model
from bench.turn import Failed, Turn, environment


class TorchRuns:
    """Starts all ranks.

    Raises:
        Failed: a rank ended with an error.
    """

    def __init__(self, contestant: Contestant, model: Model, files: Files):
        self.contestant = contestant
        self.folder = files.folder / contestant.name
        self.folder.mkdir(parents=True, exist_ok=True)
        store = self.folder / "store"
        store.unlink(missing_ok=True)
        self.ranks = []
        for rank in range(contestant.ranks):
            task = {
                "loop": contestant.loop,
                "rank": rank,
                "ranks": contestant.ranks,
                "device": model.device,
                "precision": model.precision,
                "store": str(store),
                "step_file": str(model.step_file),
                "flags": [*model.flags, *model.torch_flags],
                "archive": str(files.archive),
                "weights": str(files.archive.with_suffix(".safetensors")),
            }
            self.ranks.append(self._start(task))
        for rank in range(contestant.ranks):
            self._answer(rank)

    def _start(self, task: dict[str, Any]) -> subprocess.Popen[str]:
        with open(self.log(task["rank"]), "w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "bench.worker", json.dumps(task)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
            )

    def log(self, rank: int) -> pathlib.Path:
        return self.folder / f"rank{rank}.log"

    def _answer(self, rank: int) -> dict[str, Any]:
        line = self.ranks[rank].stdout.readline()
        reply = json.loads(line) if line else {"error": f"rank {rank} ended"}
        if "error" in reply:
            self.close()
            raise Failed(f"{reply['error']} (the whole of it: {self.log(rank)})")
        return reply

    def take_turn(self, warmup: int, steps: int) -> Turn:
        for rank in self.ranks:
            print(json.dumps({"steps": warmup + steps}), file=rank.stdin, flush=True)
        replies = [self._answer(rank) for rank in range(len(self.ranks))]
        return Turn(
            seconds=[second for reply in replies for second in reply["seconds"][warmup:]],
            losses=[statistics.fmean(pair) for pair in zip(*(r["losses"] for r in replies))],
            peak_bytes=replies[0]["peak_bytes"],
        )

    def close(self) -> None:
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            try:
                rank.wait(20)
            except subprocess.TimeoutExpired:
                rank.kill()
                rank.wait()

"""A contestant of this project: fsdp-run, started anew for each turn."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time
from typing import Any, Optional, Sequence

from bench.contestants import Contestant
from bench.files import Files
from bench.turn import Failed, Turn, environment
from support import chain

PIN_FOR_S = 1.0


class PlanRuns:
    """Compiles the plan for `cluster`, a file; `flags` are fsdp-run's own.

    Raises:
        Failed: the compiler refuses its options.
    """

    def __init__(
        self,
        contestant: Contestant,
        files: Files,
        flags: Sequence[str] = (),
        cluster: Optional[pathlib.Path] = None,
    ):
        self.contestant = contestant
        self.flags = [*contestant.flags, *flags]
        kernels = files.kernel_table() if "{kernels}" in contestant.pipeline else None
        pipeline = contestant.pipeline.format(cluster=cluster, kernels=kernels)
        self.compiled = files.plan(contestant.name, pipeline)
        self.folder = files.folder / contestant.name
        self.pinned = files.model.device == "cpu"

    def take_turn(self, warmup: int, steps: int) -> Turn:
        """All ranks of one run, or, for plans of one rank, a run on each core."""
        runs = self.contestant.copies
        started = [self.start(run, warmup + steps) for run in range(runs)]
        if self.pinned and runs == self.contestant.threads == 1:
            pin_children(started[0].pid)
        rows = [self.finish(run, process) for run, process in enumerate(started)]
        timed = [row for run in rows for row in run[warmup:]]
        return Turn(
            seconds=[row["step_ms"] / 1e3 for row in timed],
            losses=[row["loss"] for row in rows[0]],
            peak_bytes=rows[0][-1]["memory_peak_bytes"],
            # On GPUs the host does not see what communication costs.
            details={
                **{
                    key: [row[key] for row in timed if key in row]
                    for key in ("exposed_comm_ms", "launch_ms")
                },
                "summary": json.loads(self.path(0, "summary.json").read_text()),
            },
        )

    def close(self) -> None:
        pass

    def path(self, run: int, name: str) -> pathlib.Path:
        """Of a run's own file: `metrics.jsonl` or `summary.json`."""
        return self.folder / f"run{run}.{name}"

    def start(self, run: int, steps: int) -> subprocess.Popen[str]:
        """A run of so many steps in all, whose files are not there yet."""
        arguments = chain.run_arguments(self.compiled, steps)
        arguments += ["--nproc", str(self.contestant.ranks), "--progress", "none"]
        for kind in ("metrics", "summary"):
            name = self.path(run, "metrics.jsonl" if kind == "metrics" else "summary.json")
            name.unlink(missing_ok=True)
            arguments += [f"--{kind}", str(name)]
        # Of a model that is not pinned to cores, all of them draw the first values.
        threads = self.contestant.threads if self.pinned else os.cpu_count()
        cores = {run} if self.contestant.copies > 1 else {0, 1}
        return subprocess.Popen(
            [*arguments, *self.flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(OMP_NUM_THREADS=str(threads)),
            preexec_fn=lambda: os.sched_setaffinity(0, cores) if self.pinned else None,
        )

    def finish(self, run: int, process: subprocess.Popen[str]) -> list[dict[str, Any]]:
        """Waits for the run, and returns the metrics of its steps. Raises Failed."""
        output, _ = process.communicate()
        if process.returncode != 0:
            lines = [line for line in output.splitlines() if line.strip()] or ["no message"]
            raise Failed(f"fsdp-run ended with {process.returncode}: {lines[-1]}")
        text = self.path(run, "metrics.jsonl").read_text()
        return [row for row in map(json.loads, text.splitlines()) if "loss" in row]


def pin_children(parent: int) -> None:
    """Gives the two ranks that `parent` starts a core each, with all their threads."""
    children: list[str] = []
    end = time.monotonic() + PIN_FOR_S
    while len(children) < 2 and time.monotonic() < end:
        try:
            text = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text()
        except FileNotFoundError:
            return
        children = text.split()
        time.sleep(0.002)
    for core, child in enumerate(children[:2]):
        try:
            for thread in os.listdir(f"/proc/{child}/task"):
                os.sched_setaffinity(int(thread), {core})
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended, and its run says why

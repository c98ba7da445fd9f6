"""Runs fsdp-run and other programs for the rows, and keeps what they said."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
from concurrent.futures import Future
from typing import Any, Optional, Sequence

from gpu import tensors
from gpu.cases import Case, Files

TIMEOUT_S = 120


class Stopped(Exception):
    """A check cannot go on; the message says why in one line."""


@dataclasses.dataclass
class Ended:
    code: int
    output: str

    @property
    def error(self) -> str:
        """The line that says why it failed, or how it ended."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        found = [line for line in lines if "error" in line.lower()] or lines[-1:]
        return found[0][:300] if found else f"ended with {self.code} and no message"


@dataclasses.dataclass
class Run:
    """What a run of fsdp-run left: see docs/metrics.md."""

    metrics: list[dict[str, Any]]
    summary: dict[str, Any]
    saved: pathlib.Path
    output: str

    @property
    def losses(self) -> list[float]:
        return [row["loss"] for row in self.metrics if "loss" in row]

    def weights(self) -> dict[str, Any]:
        return tensors.read(self.saved)


class Lab:
    """Starts programs for the rows, from several threads if they like.

    Args:
        programs: the folder of fsdp-run and the unit tests.
        out: the folder of the raw logs.
        device: `cuda`, or `cpu` where the script itself is tested.
    """

    def __init__(
        self, programs: pathlib.Path, files: Files, out: pathlib.Path, device: str = "cuda"
    ):
        self.programs = programs
        self.files = files
        self.device = device
        self.scratch = out / "runs"
        self.scratch.mkdir(parents=True, exist_ok=True)
        self._log = out / "raw.log"
        self._lock = threading.Lock()
        self._runs: dict[tuple[Any, ...], Future[Run]] = {}
        text = files.refusals.read_text() if files.refusals.exists() else "{}"
        self._refused = json.loads(text)

    def program(self, name: str) -> pathlib.Path:
        path = self.programs / name
        if not path.exists():
            raise Stopped(f"{path} is not built")
        return path

    def plan(self, case: Case, device: Optional[str] = None) -> pathlib.Path:
        path = self.files.plan(case, device or self.device)
        if path.name in self._refused:
            raise Stopped(f"the compiler refused it: {self._refused[path.name]}")
        if not path.exists():
            raise Stopped(f"there is no {path.name}; test/gpu/prepare.py makes it")
        return path

    def command(
        self, arguments: Sequence[Any], timeout: float = TIMEOUT_S, **environment: str
    ) -> Ended:
        """Runs a program to its end, with one host thread a rank; its whole output goes to the
        log. What outlasts `timeout` seconds is killed, with all that it started."""
        words = [str(word) for word in arguments]
        begin = time.monotonic()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            code = 124
            output += f"\nerror: killed after {timeout:.0f} s"
        took = time.monotonic() - begin
        with self._lock, open(self._log, "a") as log:
            settings = "".join(f"{name}={value!r} " for name, value in environment.items())
            log.write(f"$ {settings}{' '.join(words)}\n{output}\nexit {code}, {took:.1f} s\n\n")
        return Ended(code, output)

    def arguments(self, case: Case, plan: pathlib.Path) -> list[Any]:
        words = [self.program("fsdp-run"), plan, "--weights", self.files.weights(case)]
        if data := self.files.data(case):
            words += ["--data", data]
        return words

    def attempt(
        self,
        case: Case,
        *flags: str,
        device: Optional[str] = None,
        ranks: Optional[int] = None,
        **environment: str,
    ) -> Ended:
        """Starts a plan of the case for a step, and expects nothing of how it ends."""
        words = [*self.arguments(case, self.plan(case, device)), "--steps", 1, *flags]
        return self.command([*words, "--nproc", ranks or case.ranks], **environment)

    def run(self, case: Case, device: str, *flags: str, repetition: int = 0) -> Run:
        """Trains a case to its end, once for each set of arguments: a thread that asks for a run
        of another thread waits for it. Ranks are threads of one process, except with NCCL, which
        needs processes.

        Raises:
            Stopped: there is no plan, or the run failed.
        """
        arguments = (case, device, flags, repetition)
        with self._lock:
            known = self._runs.get(arguments)
            future = known or self._runs.setdefault(arguments, Future())
        if not known:
            try:
                future.set_result(self._train(*arguments))
            except BaseException as error:
                future.set_exception(error)
        return future.result()

    def _train(self, case: Case, device: str, flags: Sequence[str], repetition: int) -> Run:
        tag = "".join(flags).replace("--", "-").replace("/", "_") + f".{repetition}"
        files = {
            kind: self.scratch / f"{case.name}.{device}{tag}.{kind}"
            for kind in ("metrics", "summary", "save")
        }
        words = [*self.arguments(case, self.plan(case, device)), *flags]
        words += ["--nproc", case.ranks, "--steps", case.steps]
        words += [] if "nccl" in flags else ["--threads"]
        for kind, path in files.items():
            path.unlink(missing_ok=True)
            words += [f"--{kind}", path]
        ended = self.command(words, NVIDIA_TF32_OVERRIDE="0")  # cuDNN's convolutions have it on
        if ended.code:
            raise Stopped(f"{case.name} for {device}: {ended.error}")
        rows = [json.loads(line) for line in files["metrics"].read_text().splitlines()]
        summary = json.loads(files["summary"].read_text())
        return Run(rows, summary, files["save"], ended.output)

"""Many cases, each in a process of its own, forked from one that has imported and warmed up
everything: a crash or a hang is that case's alone."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from typing import Any, Callable, Sequence, TypeVar

import torch

from support import chain
from support.chain import ChainError

PASSED, CLOSE, REFUSED, WRONG = "passed", "close", "refused", "wrong"
NOT_COMPARABLE = "not comparable"


@dataclasses.dataclass
class Outcome:
    """What became of a case: `stage` is where it stopped, `reason` why, `operator` the one whose
    bits differ first, and what was measured."""

    status: str
    stage: str = ""
    reason: str = ""
    operator: str = ""
    figures: dict[str, float] = dataclasses.field(default_factory=dict)


class Stage:
    """Remembers which stage runs, for the one who waits for this process."""

    def __init__(self, folder: pathlib.Path):
        self.path = folder / "stage"

    def enter(self, stage: str) -> None:
        self.path.write_text(stage)

    @property
    def name(self) -> str:
        return self.path.read_text() if self.path.exists() else ""


def message(output: str, length: int = 200) -> str:
    """The error of a tool's output, in one line, without paths and without its identifier."""
    lines = [line for line in output.splitlines() if "error:" in line]
    text = lines[0].split("error:", 1)[1] if lines else output.strip()[-300:]
    text = re.sub(r"(/[\w.+-]+)+/([\w.+-]+)", r"\2", text)
    text = re.sub(r"0x[0-9a-f]{6,}", "0x…", text)
    text = re.sub(r" \[FSDP-E\d{4}\]", "", text)
    return " ".join(text.split())[:length]


def failure(error: Exception, folder: pathlib.Path, stage: Stage, length: int = 200) -> Outcome:
    """What `error`, which ended a case in `stage`, makes of it: a refusal is a program's error with
    a message; `folder` keeps the whole of it."""
    if isinstance(error, subprocess.TimeoutExpired):
        return Outcome(WRONG, stage.name, f"no end after {error.timeout} s")
    if not isinstance(error, ChainError):
        (folder / "error.txt").write_text("".join(traceback.format_exception(error)))
        return Outcome(WRONG, stage.name, message(f"uncaught {type(error).__name__}: {error}"))
    (folder / "error.txt").write_text(str(error))
    if error.code < 0 or error.code >= 128:
        return Outcome(WRONG, stage.name, f"ended by signal ({error.code})")
    if "error:" not in error.output:
        return Outcome(WRONG, stage.name, "no error message: " + message(error.output))
    return Outcome(REFUSED, stage.name, message(error.output, length))


def train(
    archive: pathlib.Path, folder: pathlib.Path, stage: Stage, ranks: int, steps: int, tool_s: float
) -> chain.Result:
    """Imports, compiles and runs an archive under `--poison`, with PyTorch's own random stream; a
    program may take `tool_s` seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    ir, scheduled, plan = (folder / name for name in ("step.mlir", "fsdp.mlir", "step.plan"))
    translate, opt = chain.binary("fsdp-translate"), chain.binary("fsdp-opt")
    files = [folder / name for name in ("metrics.jsonl", "summary.json", "saved.safetensors")]
    run = [chain.binary("fsdp-run"), plan, "--nproc", ranks, "--threads", "--poison"]
    run += ["--steps", steps, "--rng=sequential"]
    run += ["--weights", archive.with_suffix(".safetensors")]
    if (data := archive.with_suffix(".data.safetensors")).exists():
        run += ["--data", data]
    for flag, file in zip(("--metrics", "--summary", "--save"), files):
        run += [flag, file]
    stages: list[tuple[str, list[Any]]] = [
        ("import", [translate, "--import-torchscript", archive, "-o", ir]),
        ("passes", [opt, ir, f"--fsdp-pipeline=mesh={ranks}", "-o", scheduled]),
        ("plan", [translate, "--fsdp-to-plan", scheduled, "-o", plan]),
        ("run", run),
    ]
    for name, command in stages:
        stage.enter(name)
        chain.command(command, timeout=tool_s)
    return chain.read_result(*files)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = a.contiguous().reshape(-1), b.contiguous().reshape(-1)
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


Case = TypeVar("Case")


def run(
    cases: Sequence[Case],
    check: Callable[[Case, pathlib.Path], Outcome],
    label: Callable[[Case], str],
    folder: pathlib.Path,
    jobs: int,
    timeout_s: float,
    verbose: bool,
    tidy: bool = False,
) -> dict[Case, Outcome]:
    """The outcome of each case, at most `jobs` at a time, each in a folder of its own, which `tidy`
    empties when the case has ended."""
    for program in chain.LOADED_LATE:  # here, and so once for all cases
        chain.server_of(str(chain.binary(program)))
    results: dict[Case, Outcome] = {}
    running: dict[int, tuple[Case, pathlib.Path, float]] = {}
    waiting = collections.deque(enumerate(cases))
    while waiting or running:
        while waiting and len(running) < jobs:
            number, case = waiting.popleft()
            place = folder / f"{number:04d}-{label(case).replace('/', '-')}"
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    _child(case, check, place)
                    code = 0
                finally:
                    os._exit(code)
            running[pid] = (case, place, time.monotonic())
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            now = time.monotonic()
            for late, (case, place, start) in list(running.items()):
                if now - start > timeout_s:
                    os.killpg(late, signal.SIGKILL)
            time.sleep(0.01)
            continue
        case, place, start = running.pop(pid)
        outcome = results[case] = _collect(place, status)
        if tidy:
            shutil.rmtree(place, ignore_errors=True)
        if verbose or outcome.status == WRONG:
            print(
                f"[{len(results)}/{len(cases)}] {label(case)}: {outcome.status} "
                f"{outcome.stage} {outcome.reason} ({time.monotonic() - start:.1f} s)",
                flush=True,
            )
    return results


def _child(case: Any, check: Callable[[Any, pathlib.Path], Outcome], folder: pathlib.Path) -> None:
    """The forked process: leaves `outcome.json`, and its output in `log`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.setpgid(0, 0)
    torch.set_num_threads(1)
    outcome = check(case, folder)
    partial = folder / "outcome.tmp"
    partial.write_text(json.dumps(dataclasses.asdict(outcome)))
    partial.rename(folder / "outcome.json")


def _collect(folder: pathlib.Path, status: int) -> Outcome:
    """What a process that ended with `status` left."""
    path = folder / "outcome.json"
    if path.exists():
        return Outcome(**json.loads(path.read_text()))
    return Outcome(WRONG, Stage(folder).name, f"the process ended with status {status}")


def summary(results: dict[Any, Outcome], statuses: Sequence[str]) -> str:
    """How many there are of each status, and why most of the refused ones are."""
    counts = collections.Counter(outcome.status for outcome in results.values())
    lines = [f"{len(results)} cases: " + ", ".join(f"{counts[k]} {k}" for k in statuses)]
    refused = ((o.stage, o.reason) for o in results.values() if o.status == REFUSED)
    for (stage, reason), n in collections.Counter(refused).most_common(20):
        lines.append(f"  refused by {stage}, {n}: {reason}")
    return "\n".join(lines)


def conclude(failures: list[str]) -> int:
    """Prints what is wrong; the exit status."""
    for line in failures:
        print("error:", line)
    return 1 if failures else 0


def compare(
    results: dict[Case, Outcome],
    table: dict[Case, Outcome],
    label: Callable[[Case], str],
    whole: bool,
    may_pass: bool = False,
) -> list[str]:
    """How `results` differ from a committed table, one line each; `whole` says that all cases
    were run. With `may_pass`, what is close in the table may pass: kernels that PyTorch's
    libraries choose for another processor can have eager's last bits."""
    lines = []
    for case, outcome in sorted(results.items()):
        before = table.get(case)
        if before is None:
            lines.append(f"{label(case)}: not in the table")
        elif may_pass and (before.status, outcome.status) == (CLOSE, PASSED):
            continue
        elif (before.status, before.stage) != (outcome.status, outcome.stage):
            lines.append(
                f"{label(case)}: {outcome.status} {outcome.stage} "
                f"({outcome.reason}); the table says {before.status} {before.stage}"
            )
    gone = sorted(set(table) - set(results)) if whole else []
    return lines + [f"{label(case)}: is no case any more" for case in gone]

"""Tests that ranks end together, however one of them ends, and leave nothing
behind: no process, no shared memory and no file."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Callable, Iterator

import pytest

from support import chain

#: Far more than any of this takes; the tests measure nothing.
PATIENCE_S = 60.0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def ranks_of(launcher: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text()
        return [int(child) for child in children.split()]
    return []


def is_running(process: int) -> bool:
    try:
        status = pathlib.Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture(params=("connecting", "training"))
def endless(
    request: pytest.FixtureRequest, compiled: chain.Compiled, tmp_path: pathlib.Path
) -> Iterator[subprocess.Popen[str]]:
    """A run that would not end, when its two ranks have just started, or when
    they train."""
    shared = set(os.listdir("/dev/shm"))
    metrics, temporary = tmp_path / "metrics.jsonl", tmp_path / "temporary"
    temporary.mkdir()
    run = chain.run_arguments(compiled, 100_000_000)
    process = subprocess.Popen(
        [*run, "--nproc", "2", "--metrics", metrics],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=chain.environment(TMPDIR=str(temporary)),
    )
    try:
        wait_until(lambda: len(ranks_of(process.pid)) == 2)
        if request.param == "training":
            wait_until(lambda: metrics.exists() and metrics.stat().st_size > 0)
        ranks = ranks_of(process.pid)
        yield process
        wait_until(lambda: not any(map(is_running, ranks)))
        # Tests beside this one have some for a while.
        wait_until(lambda: set(os.listdir("/dev/shm")) <= shared)
        assert not os.listdir(temporary)
    finally:
        process.kill()
        process.wait()


def test_a_rank_is_killed(endless: subprocess.Popen[str]) -> None:
    os.kill(ranks_of(endless.pid)[1], signal.SIGKILL)
    assert endless.wait(PATIENCE_S) == 1
    error = endless.stderr.read()
    assert "rank 1" in error and "signal 9" in error


def test_the_launcher_is_killed(endless: subprocess.Popen[str]) -> None:
    endless.kill()


STARTER = """import os, subprocess, sys
subprocess.run(sys.argv[1:], env={**os.environ, "FSDP_MLIR_STARTER": str(os.getpid())})"""


def test_who_started_the_run_is_killed(compiled: chain.Compiled) -> None:
    """As the driver does, which names itself."""
    run = [*chain.run_arguments(compiled, 100_000_000), "--nproc", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", STARTER, *run],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=chain.environment(),
    )
    try:
        wait_until(lambda: len(sum(map(ranks_of, ranks_of(process.pid)), [])) == 2)
        (launcher,) = ranks_of(process.pid)
        ranks = ranks_of(launcher)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not any(map(is_running, [launcher, *ranks])))


def test_the_user_interrupts(endless: subprocess.Popen[str]) -> None:
    endless.send_signal(signal.SIGINT)
    assert endless.wait(PATIENCE_S) == 128 + signal.SIGINT
    assert "stopped by Interrupt [FSDP-E0003]" in endless.stderr.read()


def test_a_crash_says_where(compiled: chain.Compiled) -> None:
    """Of a program that waits, a signal from outside is as good as a crash."""
    process = subprocess.Popen(
        [*chain.run_arguments(compiled, 100_000_000), "--nproc", "2", "--threads"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=chain.environment(),
    )
    try:
        assert process.stdout.readline()
        process.send_signal(signal.SIGSEGV)
        error = process.communicate(timeout=PATIENCE_S)[1]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGSEGV
    said, *calls = error.splitlines()
    assert said.startswith("fsdp-run crashed")
    assert any("fsdp-run(+0x" in call for call in calls)

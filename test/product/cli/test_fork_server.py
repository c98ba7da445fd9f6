"""Tests that the copies of a loaded program, which most tests run, are that program."""

import os
import pathlib
import subprocess

import pytest
from support import chain

pytestmark = pytest.mark.quick


def test_a_copy_is_the_program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("here").mkdir()
    for arguments, code in (["--version"], 0), (["here"], 1), (["--no-such-flag"], 2):
        words = [str(chain.binary("fsdp-run")), *arguments]
        copied = chain.command(words, check=False)
        started = subprocess.run(words, capture_output=True, text=True, env=chain.environment())
        assert copied.returncode == started.returncode == code
        assert (copied.stdout, copied.stderr) == (started.stdout, started.stderr)


def no_program(*words: object, **options: object) -> None:
    raise AssertionError("a program was started")


def test_most_programs_are_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where imports or tests have set variables since."""
    run = [chain.binary("fsdp-run"), "--version"]
    chain.command(run)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "elsewhere")
    monkeypatch.setattr(subprocess, "run", no_program)
    chain.command(run)
    monkeypatch.setenv("LD_DEBUG", "libs")  # is read while a program is loaded
    with pytest.raises(AssertionError, match="a program was started"):
        chain.command(run)


def test_a_copy_that_takes_too_long_is_ended(tmp_path: pathlib.Path) -> None:
    module = tmp_path / "step.mlir"
    module.write_text(f'module attributes {{more.than_a_pipe_holds = "{"x" * (1 << 20)}"}} {{}}')
    pipe = tmp_path / "fifo"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # who never reads
    opt = chain.binary("fsdp-opt")
    with pytest.raises(subprocess.TimeoutExpired):
        chain.command([opt, module, "--allow-unregistered-dialect", "-o", pipe], timeout=0.2)
    chain.command([opt, "--version"])
    os.close(reader)


def test_another_environment_is_a_program_of_its_own() -> None:
    words = [chain.binary("fsdp-run"), "--version"]
    done = chain.command(words, env=chain.environment(LD_DEBUG="libs"))
    assert "calling init" in done.stderr

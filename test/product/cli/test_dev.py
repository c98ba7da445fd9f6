"""Tests what `tools/dev` does around the programs that it calls, which are stand-ins."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from support import chain
from support.chain import ROOT

PROGRAMS = ("fsdp-opt", "fsdp-translate", "fsdp-run")
# Debian's packages are all there, Ninja builds at once, and no Python is started.
STAND_INS = {
    "dpkg-query": "printf ' installed:%s ' \"${@:3}\"",
    "ninja": "touch built",
}


def write_program(path: pathlib.Path, text: str = "exit 0") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def run_dev(folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{folder}/stand-ins:{os.environ['PATH']}"}
    command = [folder / "tools" / "dev", *words]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with `tools/dev` in which everything is installed."""
    names = ("requirements.txt", "constraints.txt", "tools/dev", "tools/sanitize.sh")
    (tmp_path / "tools").mkdir()
    for name in names:
        shutil.copy(ROOT / name, tmp_path / name)
    wanted = b"".join((tmp_path / name).read_bytes() for name in names[:2])
    write_program(tmp_path / ".venv" / "bin" / "python")
    (tmp_path / ".venv" / ".installed").write_text(hashlib.sha256(wanted).hexdigest())
    for name, text in STAND_INS.items():
        write_program(tmp_path / "stand-ins" / name, text)
    for name in PROGRAMS:
        write_program(tmp_path / "build" / "bin" / name)
    (tmp_path / "build" / "build.ninja").write_text("")
    return tmp_path


def test_programs_are_on_the_path_of_the_environment(tree: pathlib.Path) -> None:
    """Tests that a shell with .venv/bin/activate finds them, as the documentation calls them."""
    for _ in range(2):
        done = run_dev(tree, "build")
        assert done.returncode == 0, done.stdout + done.stderr
        for name in PROGRAMS:
            assert (tree / ".venv" / "bin" / name).resolve() == tree / "build" / "bin" / name


@pytest.mark.parametrize("status, builds", ((2, False), (0, False), (64, True)))
def test_wrong_flags_of_the_example_cost_no_build(
    tree: pathlib.Path, status: int, builds: bool
) -> None:
    """Tests flags that are wrong, --help, and flags that are right."""
    write_program(tree / ".venv" / "bin" / "python", f"[[ $1 != -c ]] || exit {status}")
    done = run_dev(tree, "train", "--epochs", "2")
    assert done.returncode == status % 64, done.stdout + done.stderr
    assert (tree / "built").exists() == builds


def test_a_text_that_is_not_there_costs_no_build(
    tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "python" / "examples", tree / "python" / "examples")
    monkeypatch.setenv("PYTHONPATH", str(chain.PYTHON))
    write_program(tree / ".venv" / "bin" / "python", f'exec {sys.executable} "$@"')
    done = run_dev(tree, "train", "--data", "none.txt")
    assert done.returncode == 1 and not (tree / "built").exists()
    assert "--data none.txt: no such file or folder; give a text file" in done.stderr

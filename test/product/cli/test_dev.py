"""Tests what `tools/dev` does around the programs that it calls, which are stand-ins."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess

from support.chain import ROOT

PROGRAMS = ("fsdp-opt", "fsdp-translate", "fsdp-run")
# Debian's packages are all there, Ninja builds at once, and no Python is started.
STAND_INS = {
    "dpkg-query": "printf ' installed:%s ' \"${@:3}\"",
    "ninja": "exit 0",
}


def write_program(path: pathlib.Path, text: str = "exit 0") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def test_programs_are_on_the_path_of_the_environment(tmp_path: pathlib.Path) -> None:
    """Tests that a shell with .venv/bin/activate finds them, as the documentation calls them."""
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
    environment = {**os.environ, "PATH": f"{tmp_path}/stand-ins:{os.environ['PATH']}"}
    for _ in range(2):
        command = [tmp_path / "tools" / "dev", "build"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        for name in PROGRAMS:
            program = tmp_path / ".venv" / "bin" / name
            assert program.resolve() == tmp_path / "build" / "bin" / name

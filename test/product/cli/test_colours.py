"""Tests that programs colour errors on a terminal alone, and not where NO_COLOR is set."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pty
import subprocess

import pytest

from support import chain


def on_a_terminal(command: list[str], **variables: str) -> str:
    """What a program prints there."""
    ours, its = pty.openpty()
    environment = chain.environment(TERM="xterm", **variables)
    try:
        subprocess.run(command, stdout=its, stderr=its, stdin=its, env=environment, timeout=60)
    finally:
        os.close(its)
    # A terminal hands over what was written in as many pieces as it likes, and
    # is at its end, which os.read says by an error, when nobody has it open.
    written = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
        while piece := terminal.read(1 << 16):
            written += piece
    return written.decode()


@pytest.mark.quick
@pytest.mark.parametrize("program", (["fsdp-opt"], ["fsdp-translate", "--fsdp-to-plan"]))
def test_no_color_is_honoured(program: list[str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "bad.mlir").write_text("module { nonsense }")
    command = [str(chain.binary(program[0])), *program[1:], str(tmp_path / "bad.mlir")]
    coloured = on_a_terminal(command, NO_COLOR="")
    plain = on_a_terminal(command, NO_COLOR="1")
    assert "error:" in plain and "\x1b[" not in plain
    assert "\x1b[" in coloured

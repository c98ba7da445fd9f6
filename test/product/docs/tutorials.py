"""What a reader of a tutorial does: its commands, in a folder of the reader's own."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
import sys

from support import chain

TUTORIALS = chain.ROOT / "docs" / "tutorials"
# Where the programs of Python's packages lie, such as torchrun.
SCRIPTS = pathlib.Path(sys.executable).parent


def section_of(page: str, section: str) -> str:
    """The text of a section of a tutorial."""
    return (TUTORIALS / page).read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]


def commands(page: str, section: str) -> list[str]:
    """Those of a section of the page that train."""
    train = r"^(?:python -m fsdp_mlir|python python/|torchrun ).*$"
    return re.findall(train, section_of(page, section), re.MULTILINE)


def begin(
    command: str | list[str], folder: pathlib.Path, **environment: str
) -> "subprocess.Popen[str]":
    """Gives a command in a folder; what was compiled is kept there too."""
    words = shlex.split(command) if isinstance(command, str) else command
    programs = {"python": sys.executable, "torchrun": str(SCRIPTS / "torchrun")}
    if not (folder / "python").exists():
        (folder / "python").symlink_to(chain.PYTHON)
    return subprocess.Popen(
        [programs.get(words[0], words[0]), *words[1:]],
        cwd=folder,
        env=chain.environment(XDG_CACHE_HOME=str(folder / "cache"), **environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(process: "subprocess.Popen[str]") -> str:
    """What it has printed, when it has succeeded."""
    output = process.communicate(timeout=chain.TIMEOUT_S)[0]
    assert process.returncode == 0, output
    return output

"""Completes the flags of `fsdp-run` and `python -m fsdp_mlir.train` in bash.

source <(python -m fsdp_mlir.completion)
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Sequence

from .driver.stages import StageError, find_tools
from .driver.flags import make_parser
from .errors import ArgumentParser, exit_with

# What stands for a path, in the help of either program.
PATHS = ("FILE", "DIR", "PATH", "auto|PATH")

SCRIPT = r"""# Completes the flags of fsdp-run and python -m fsdp_mlir.train, in bash.
declare -A _fsdp_flags=(
{flags}
)
# What a flag takes: @path, @text, or the words there are.
declare -A _fsdp_takes=(
{takes}
)
_fsdp_complete() {{ # PROGRAM
  local word=${{COMP_WORDS[COMP_CWORD]}}
  local takes=${{_fsdp_takes["$1 ${{COMP_WORDS[COMP_CWORD-1]}}"]-}}
  COMPREPLY=()
  if [[ $takes == @text ]]; then
    return
  elif [[ $takes && $takes != @path ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$takes" -- "$word")
  elif [[ ! $takes && $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${{_fsdp_flags[$1]}}" -- "$word")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}}
_fsdp_run() {{ _fsdp_complete fsdp-run; }}
_fsdp_python() {{
  COMPREPLY=()
  if [[ ${{COMP_WORDS[1]-}} == -m && ${{COMP_WORDS[2]-}} == fsdp_mlir.train ]] && ((COMP_CWORD > 2)); then
    _fsdp_complete train
  fi
}}
complete -F _fsdp_run fsdp-run
complete -o default -F _fsdp_python python python3
"""


@dataclass
class Flag:
    """A flag, what stands for its value in the help (None: a switch), and the values there are."""

    name: str
    takes: str | None
    values: list[str]

    @property
    def completes(self) -> str:
        """The flag's entry in the script's table."""
        if self.values:
            return " ".join(self.values)
        return "@path" if self.takes in PATHS else "@text"


def flags_of_train() -> list[Flag]:
    return [
        Flag(name, None if action.nargs == 0 else action.metavar or "", [*(action.choices or [])])
        for action in make_parser()._actions
        for name in action.option_strings
        if name.startswith("--")
    ]


def flags_of_run(program: Path) -> list[Flag]:
    """The flags that fsdp-run lists."""
    listed = subprocess.run([program, "--list-flags"], capture_output=True, text=True, check=True)
    lines = (line.split("\t") for line in listed.stdout.splitlines())
    return [Flag(name, takes or None, values.split()) for name, takes, values in lines]


def script(programs: dict[str, list[Flag]]) -> str:
    """The bash script for these programs' flags."""

    def entry(key: str, value: str) -> str:
        return f"  [{shlex.quote(key)}]={shlex.quote(value)}"

    flags = [entry(name, " ".join(f.name for f in all_)) for name, all_ in programs.items()]
    takes = [
        entry(f"{name} {flag.name}", flag.completes)
        for name, all_ in programs.items()
        for flag in all_
        if flag.takes is not None
    ]
    return SCRIPT.format(flags="\n".join(flags), takes="\n".join(takes))


def main(argv: Optional[Sequence[str]] = None) -> int:
    ArgumentParser(
        prog="python -m fsdp_mlir.completion",
        description="Prints what completes the flags of fsdp-run and python -m fsdp_mlir.train in "
        "bash: source <(python -m fsdp_mlir.completion)",
    ).parse_args(argv)
    try:
        program = find_tools()["fsdp-run"]
    except StageError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code
    print(script({"fsdp-run": flags_of_run(program), "train": flags_of_train()}), end="")
    return 0


if __name__ == "__main__":
    exit_with(main)

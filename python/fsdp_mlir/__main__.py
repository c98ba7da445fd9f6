"""Names the programs: `python -m fsdp_mlir` is none itself."""

from __future__ import annotations

from typing import Optional, Sequence

from .errors import ArgumentParser, exit_with

PROGRAMS = {
    "train": "trains a step file on sharded ranks",
    "export": "writes the archive of a step, its weights and its data",
    "report": "makes a page of a run",
    "checkpoint": "looks into checkpoints, and takes them to and from PyTorch's formats",
    "completion": "prints what completes flags in bash",
    "explain": "says what an identifier of an error means",
}


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Ends with the programs that there are, or with an error that has the nearest one."""
    parser = ArgumentParser(
        prog="python -m fsdp_mlir",
        usage="python -m fsdp_mlir.PROGRAM [flags]",
        description="; ".join(f"{name} {what}" for name, what in PROGRAMS.items()),
    )
    parser.add_argument("program", choices=list(PROGRAMS), metavar="PROGRAM")
    program = parser.parse_known_args(argv)[0].program  # behind it may be the program's flags
    parser.error(f"programs are modules; call it as python -m fsdp_mlir.{program}")


if __name__ == "__main__":
    exit_with(main)

"""python -m fsdp_mlir.checkpoint: what users ask of checkpoints."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Optional, Sequence

from ..errors import ExportError
from .errors import CheckpointError
from .inspect import report, summary
from .reader import open_checkpoint
from .reshard import reshard
from .verify import damages


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fsdp_mlir.checkpoint",
        description="looks into checkpoints of fsdp-run, and takes them to and from PyTorch's formats",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, what: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument(
            "path", type=Path, metavar="PATH", help="a checkpoint, or a folder of some: the newest"
        )
        return command

    command = add("inspect", "shows where a run was, and its tensors")
    command.add_argument("--json", action="store_true", help="as JSON")
    add("verify", "compares every byte with what was written; status 1 where one differs")
    command = add("reshard", "rewrites a checkpoint for another number of files")
    command.add_argument("--ranks", type=_positive, required=True, metavar="N", help="files")
    command.add_argument(
        "-o", type=Path, required=True, metavar="FOLDER", help="folder to put the checkpoint into"
    )
    return parser


def _run(args: argparse.Namespace) -> int:
    with open_checkpoint(args.path) as checkpoint:
        if args.command == "inspect":
            text = json.dumps(summary(checkpoint)) if args.json else report(checkpoint)
            print(text)
        elif args.command == "verify":
            lines = damages(checkpoint)
            for line in lines:
                print(f"error: {line}", file=sys.stderr)
            if lines:
                return 1
            files = checkpoint.manifest.files
            count = sum(file.bytes for file in files)
            print(f"{checkpoint.path} is whole: {len(files)} files, {count} bytes")
        else:
            print(reshard(checkpoint, args.ranks, args.o))
    return 0


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The status of the program."""
    args = _parser().parse_args(arguments)
    try:
        return _run(args)
    except (CheckpointError, ExportError) as error:
        reason = str(error)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        reason = f"{where}{(error.strerror or str(error)).lower()}"
    print(f"error: {reason}", file=sys.stderr)
    return 1

"""The command that runs a plan: what the driver tells `fsdp-run`."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any, Iterable, Optional

from .flags import CHECKPOINT_FLAGS, RUN_FLAGS
from .other_machines import meeting_flags
from .progress import archive_metadata, data_beside

# Ranks of a run that is traced though nobody asked, for the report.
MOST_TRACED_RANKS = 8
# The weights that a run with --weights starts from.
START = "start.safetensors"


def checkpoint_flags(args: argparse.Namespace) -> dict[str, Any]:
    """The user's flags for checkpoints, with the folder that they need; empty where there are none."""
    found = _given(args, CHECKPOINT_FLAGS)
    return {"--checkpoint-dir": args.out / "checkpoints", **found} if found else {}


def _given(args: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    values = {name: getattr(args, name[2:].replace("-", "_")) for name in names}
    return {n: value for n, value in values.items() if value is not None and value is not False}


def given(args: argparse.Namespace) -> list[Any]:
    """The flags of fsdp-run that the user gave, and the folder that checkpoints need."""
    found = {**checkpoint_flags(args), **_given(args, RUN_FLAGS)}
    return [
        word
        for name, value in found.items()
        for word in ([name] if value is True else [name, value])
    ]


def data_flags(args: argparse.Namespace, out: Path) -> list[Any]:
    """The files that export wrote, or the commands that feed the ranks."""
    metadata = archive_metadata(out / "step.pt")
    fed = any(value.get("source") == "data" for value in metadata.get("inputs", []))
    flags: list[Any] = []
    for kind, flag, program in (("data", "--data", "step"), ("eval", "--eval-data", "eval")):
        path = data_beside(out / "step.pt", kind)
        if path is None and args.dry_run:
            path = out / f"step.{kind}.safetensors"
        if path is not None:
            flags += [flag, path]
        elif fed and program in metadata.get("programs", {}):
            words = [sys.executable, "-m", "fsdp_mlir.driver.feed_step"]
            words += ["--eval"] if kind == "eval" else []
            words += [str(args.step_file), *args.argv]
            flags += [f"{flag}-command", shlex.join(words)]
    return flags


def run_command(
    args: argparse.Namespace, tool: Path, out: Path, trace: Optional[Path]
) -> list[Any]:
    """The run, which leaves a trace where one is named."""
    command = [tool, out / "step.plan", *flags_as_given(args, out, trace)]
    command += ["--weights", out / (START if args.weights else "step.safetensors")]
    return [*command, *data_flags(args, out)]


def flags_as_given(args: argparse.Namespace, out: Path, trace: Optional[Path]) -> list[Any]:
    """The flags of a run's command, without the files that the stages before it write."""
    command: list[Any] = meeting_flags(args)
    for name in ("steps", "epochs"):
        if getattr(args, name):
            command += [f"--{name}", getattr(args, name)]
    if args.node_rank == 0:
        command += ["--metrics", args.metrics, "--save", args.save]
        if args.tensorboard is not None:
            command += ["--tensorboard", event_folder(args, out)]
        if trace is not None:
            command += ["--trace", trace]
        if args.report:
            command += ["--summary", args.out / "summary.json"]
        if args.trace_steps:
            command += ["--trace-steps", args.trace_steps]
    command += given(args)
    if args.non_finite:
        command += ["--non-finite", args.non_finite]
    # This program shows the progress.
    return [*command, "--progress", "notes", *shlex.split(args.run_args)]


def event_folder(args: argparse.Namespace, out: Path) -> Path:
    """Where TensorBoard's event files go: where the user wants them, else below the results."""
    return out / "tensorboard" if args.tensorboard is True else args.tensorboard


def trace_file(args: argparse.Namespace) -> Optional[Path]:
    """Where the run's trace goes: where the user wants it, else where the report finds it. More
    ranks write large files."""
    if args.trace or not args.report or args.nproc * args.nnodes > MOST_TRACED_RANKS:
        return args.trace
    return args.out / "trace.json"

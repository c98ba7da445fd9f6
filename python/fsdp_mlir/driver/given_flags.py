"""Flags that are passed on to a program, looked at by that program before a stage runs."""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import E
from . import stages
from .run_command import flags_as_given, trace_file
from .stages import Runner, StageError


def check_mesh(args: argparse.Namespace) -> None:
    """Raises StageError: the mesh that the pipeline is to compile for has other ranks than the run."""
    mesh, world = args.pipeline.get("mesh") or "", args.nproc * args.nnodes
    if re.fullmatch(r"\d+(x\d+)*", mesh) and math.prod(map(int, mesh.split("x"))) != world:
        raise StageError(
            E.WORLD_SIZE,
            f"--pipeline: mesh={mesh} has other ranks than the {world} of this run; give --nproc as "
            "many, or leave the option out",
        )


def check_launcher() -> None:
    """Raises StageError: a launcher started this process as one of several ranks of a machine. What
    starts one process per machine says RANK too, for --node-rank."""
    if os.environ.get("LOCAL_RANK"):
        raise StageError(
            E.FLAGS_DISAGREE,
            "LOCAL_RANK says that a launcher, as torchrun, started this process, and this program starts "
            "its ranks itself; call it once, with --nproc N, or have the launcher start fsdp-run "
            "(docs/launching.md)",
        )


def error_in_run_args(args: argparse.Namespace, error: StageError) -> StageError:
    """An error about a flag that --run-args has, with that in front."""
    given = [word.partition("=")[0] for word in shlex.split(args.run_args)]
    of_it = re.match(r"(?:there is no flag )?(--[\w-]+)", error.message)
    if not of_it or of_it[1] not in given:
        return error
    return StageError(error.kind, f"--run-args: {error.message}", error.code)


def check_flags(args: argparse.Namespace, tools: dict[str, Path]) -> None:
    """Has the programs look at what is passed on to them, before anything is exported.

    Raises:
        StageError: one of them refuses it.
    """
    given = flags_as_given(args, args.out, trace_file(args))
    command = [tools["fsdp-run"], args.out / "step.plan", *given]
    if args.dry_run:  # which may be for another machine
        command += ["--check-flags"]
    else:
        command += ["--check-flags-for", args.pipeline.get("device") or "cpu"]
    with ThreadPoolExecutor() as side_by_side:
        flags = side_by_side.submit(Runner().run, "", command)
        options = side_by_side.submit(
            stages.check_pipeline, tools["fsdp-opt"], args.pipeline, "--pipeline"
        )
    try:
        said, _ = flags.result()
    except StageError as error:
        raise error_in_run_args(args, error) from error
    if said:
        instead = f"--run-args {args.run_args} takes the place of a run; call fsdp-run itself"
        raise StageError(E.FLAG, instead)
    check_mesh(args)
    options.result()

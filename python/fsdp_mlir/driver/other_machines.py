"""What the machines of a run tell each other: one that fails before its ranks are started."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import subprocess
from typing import Any

from ..errors import unidentified
from . import programs


def meeting_flags(args: argparse.Namespace) -> list[Any]:
    """The flags that say where ranks are and where they meet."""
    flags = ["--nproc", args.nproc]
    if args.nnodes > 1:
        flags += ["--nnodes", args.nnodes, "--node-rank", args.node_rank]
        flags += ["--master-addr", args.master_addr, "--master-port", args.master_port]
    return flags


def tell_others(args: argparse.Namespace, why: str) -> None:
    """Ends the other machines' wait for the ranks of this one, which has said its error. It stays
    for as long as ranks wait for each other, since the others may still be compiling."""
    tool = programs.find("fsdp-run")
    if args.nnodes == 1 or args.dry_run or tool is None:
        return
    command = [tool, "step.plan", f"--decline={unidentified(why)}", *meeting_flags(args)]
    with contextlib.suppress(KeyboardInterrupt):  # by whoever does not wait for the others
        subprocess.run(
            [str(word) for word in (*command, *shlex.split(args.run_args))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            # It ends with this process, also where that is killed.
            env={**os.environ, "FSDP_MLIR_STARTER": str(os.getpid())},
        )

"""The command line of the driver."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Optional, Sequence

from .cache import default_folder

# Flags of fsdp-run that this program has too: what they take, and what they do.
RUN_FLAGS: dict[str, tuple[Any, str, str]] = {
    "--checkpoint-interval": (int, "N", "write a checkpoint every N steps"),
    "--checkpoint-seconds": (float, "S", "write a checkpoint every S seconds"),
    "--checkpoint-dir": (Path, "DIR", "of checkpoints (OUT/checkpoints)"),
    "--keep": (int, "N", "keep the newest N checkpoints, 0: all (3)"),
    "--keep-best": (str, "METRIC", "keep the checkpoint with the least METRIC too"),
    "--resume": (
        str,
        "auto|PATH",
        "go on from a checkpoint; auto: from the newest, or start where there is none",
    ),
}


def parse(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m fsdp_mlir.train",
        usage="%(prog)s [options] STEP.py [the step file's own flags]",
        description="Train a step file on sharded ranks: export, import, shard, plan, run.",
    )
    flag = parser.add_argument
    flag("step_file", metavar="STEP.py", type=Path)
    flag("argv", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    flag("--nproc", type=positive, default=1, metavar="N", help="ranks on this machine (1)")
    flag("--out", type=Path, metavar="DIR", help="results (out/NAME of the step file)")
    flag(
        "--pipeline",
        action="append",
        default=[],
        metavar="OPTIONS",
        help="of fsdp-opt --fsdp-pipeline, as in 'units=class:Block reshard-after-forward=true'; "
        "mesh is the number of ranks unless given",
    )
    flag("--steps", type=positive, metavar="N", help="length of the run (the step file's)")
    flag("--epochs", type=positive, metavar="N", help="length of the run (the step file's)")
    flag("--metrics", type=Path, metavar="FILE", help="JSON lines (OUT/metrics.jsonl)")
    flag("--save", type=Path, metavar="FILE", help="trained weights (OUT/trained.safetensors)")
    flag(
        "--weights",
        type=Path,
        metavar="PATH",
        help="start from these: safetensors, a folder of them, or a torch.save of state_dict()",
    )
    for name, (kind, what, text) in RUN_FLAGS.items():
        flag(name, type=kind, metavar=what, help=text)
    flag(
        "--trace",
        type=Path,
        metavar="FILE",
        help="write when each command of some steps ran, for ui.perfetto.dev",
    )
    flag("--trace-steps", metavar="A:B", help="which steps (3:5)")
    flag("--tensorboard", action="store_true", help="also write OUT/tensorboard")
    flag(
        "--run-args",
        default="",
        metavar="ARGS",
        help="further flags of fsdp-run: --run-args='--poison --seed 1'",
    )
    cache = default_folder()
    flag("--cache-dir", type=Path, default=cache, metavar="DIR", help=f"({cache})")
    flag("--no-cache", action="store_true", help="do every stage again")
    flag("--verbose", action="store_true", help="show each stage's command and output")
    flag("--dry-run", action="store_true", help="show the commands and stop")
    flag("--nnodes", type=positive, default=1, metavar="N", help="machines (1)")
    flag("--node-rank", type=int, default=0, metavar="N", help="of this machine, from 0")
    flag("--master-addr", metavar="HOST", help="of machine 0")
    flag("--master-port", type=positive, metavar="PORT", help="of machine 0")
    args = parser.parse_args(argv)
    if args.steps and args.epochs:
        parser.error("both --steps and --epochs are given; give the one that sets the length")
    if args.trace_steps and not args.trace:
        parser.error("--trace-steps says which steps --trace writes; give --trace FILE")
    if not 0 <= args.node_rank < args.nnodes:
        parser.error(f"--node-rank {args.node_rank} is not below --nnodes {args.nnodes}")
    if args.nnodes > 1 and not (args.master_addr and args.master_port):
        parser.error("--nnodes needs --master-addr and --master-port, the same on every machine")
    return args


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value

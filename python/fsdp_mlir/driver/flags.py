"""The command line of the driver."""

from __future__ import annotations

import argparse
import difflib
import shlex
import subprocess
from pathlib import Path
from typing import Any, Optional, Sequence

from . import programs
from .cache import default_folder
from .help_screen import ShowScreen
from ..errors import ArgumentParser, E
from .pipeline import Options
from .settings import Origin, SettingsError, as_flags, read_settings
from .wandb_run import why_not


def positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def path(text: str) -> Path:
    """A path that is not empty: an unset variable of the shell would name the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("its value is empty; is a variable of the shell not set?")
    return Path(text)


# Flags of fsdp-run for checkpoints, which this program has too: what they take, and what they do.
# Which numbers they take is fsdp-run's to say, before a stage runs.
CHECKPOINT_FLAGS: dict[str, tuple[Any, str, str]] = {
    "--checkpoint-interval": (int, "N", "write a checkpoint every N steps"),
    "--checkpoint-seconds": (float, "S", "write a checkpoint every S seconds"),
    "--checkpoint-dir": (path, "DIR", "of checkpoints (OUT/checkpoints)"),
    "--keep": (int, "N", "keep the newest N checkpoints, 0: all (3)"),
    "--keep-best": (str, "METRIC", "keep the checkpoint with the least METRIC too"),
    "--resume": (
        str,
        "auto|PATH",
        "go on from a checkpoint; auto: from the newest, or start where there is none",
    ),
}
# Others of fsdp-run; without a word for what they take they are switches.
RUN_FLAGS: dict[str, tuple[Any, Optional[str], str]] = {
    "--seed": (int, "N", "of shuffling and random operators (the step file's)"),
    "--no-shuffle": (None, None, "read samples in stored order"),
    "--eval-interval": (int, "N", "evaluate every N steps, not at each epoch's end"),
    "--eval-outputs": (path, "FILE", "what the evaluation gives for each sample, as safetensors"),
    "--log-interval": (
        int,
        "N",
        "log every N steps (1), and off a terminal print each of them",
    ),
    "--log-grad-norm": (None, None, "log the norm of all gradients"),
    "--log-units": (None, None, "log each unit's norm, bytes and exposed time"),
    "--peak-flops": (float, "F", "operations per second of one rank at best, for hfu and mfu"),
}


def parse(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """The flags in front of STEP.py, which is `step_file`, and what stands behind it, which is
    `argv`. Flags win over the file that --config names."""
    import sys

    parser = make_parser()
    own, rest = split(parser, list(sys.argv[1:] if argv is None else argv))
    args, unknown = parser.parse_known_args(own)
    _refuse(parser, unknown)
    origin = Origin()
    if args.config:
        try:
            settings = read_settings(args.config, flags_of(parser))
        except SettingsError as error:
            parser.error(error.message, error.kind or E.SETTINGS_FILE)
        if args.pipeline:
            settings.forget_options(name for name, _ in Options.of(args.pipeline).items())
        if args.steps or args.epochs:
            settings.forget("steps", "epochs")
        rest = rest or settings.step
        origin, said = Origin.of(args.config, settings, own), f"--config {args.config}: "
        with parser.saying(lambda message: said + message):
            args, unknown = parser.parse_known_args([*as_flags(settings), *own])
        _refuse(parser, unknown)
    if not rest:
        parser.error("no STEP.py is given; it stands behind the flags of this program")
    args.origin, args.step_file, args.argv = origin, Path(rest[0]), rest[1:]
    # No plan can leave out an update that it was not compiled to leave out.
    args.pipeline = Options.of(args.pipeline)
    if args.non_finite in ("stop", "skip") and args.pipeline.get("non-finite") is None:
        args.pipeline = args.pipeline.adding("non-finite", "skip")
    with parser.saying(origin.located):
        _check(parser, args)
    return args


def make_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="python -m fsdp_mlir.train",
        usage="%(prog)s [options] STEP.py [the step file's own flags]",
        description="Train a step file on sharded ranks: export, import, shard, plan, run.",
        allow_abbrev=False,
        add_help=False,
    )
    flag = parser.add_argument
    flag("-h", "--help", action=ShowScreen, nargs=0, help="the flags of every day")
    flag("--help-all", action="help", help="all flags")
    flag("--nproc", type=positive, default=1, metavar="N", help="ranks on this machine (1)")
    flag("--out", type=path, metavar="DIR", help="results (out/NAME of the step file)")
    flag(
        "--config",
        type=path,
        metavar="FILE",
        help="flags from a TOML file, as a run leaves them in OUT/run.toml; flags given here win",
    )
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
    flag(
        "--accumulate",
        type=positive,
        metavar="K",
        help="micro-batches per step, of the shape of the step file's inputs (the step file's)",
    )
    flag("--metrics", type=path, metavar="FILE", help="JSON lines (OUT/metrics.jsonl)")
    flag("--save", type=path, metavar="FILE", help="trained weights (OUT/trained.safetensors)")
    flag(
        "--weights",
        type=path,
        metavar="PATH",
        help="start from these: safetensors, a folder of them, or a torch.save of state_dict()",
    )
    for name, (kind, what, text) in {**CHECKPOINT_FLAGS, **RUN_FLAGS}.items():
        if what is None:
            flag(name, action="store_true", help=text)
        else:
            flag(name, type=kind, metavar=what, help=text)
    flag(
        "--non-finite",
        choices=("continue", "stop", "skip"),
        help="what to do about a step whose loss, or a gradient, is infinite or NaN: go on as "
        "PyTorch does (the default), stop with a checkpoint of the state before it, or skip its "
        "update on all ranks; the last two compile the plan with non-finite=skip",
    )
    flag(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="json: a JSON object per line (docs/metrics.md)",
    )
    flag(
        "--trace",
        type=path,
        metavar="FILE",
        help="write when each command of some steps ran, for ui.perfetto.dev",
    )
    flag("--trace-steps", metavar="A:B", help="which steps (3:5)")
    flag(
        "--no-report",
        dest="report",
        action="store_false",
        help="neither trace some steps nor write OUT/report.html",
    )
    flag(
        "--tensorboard",
        nargs="?",
        type=path,
        const=True,
        metavar="=DIR",
        help="also write event files into DIR (OUT/tensorboard)",
    )
    flag("--wandb", action="store_true", help="also send the metrics to Weights & Biases")
    flag(
        "--run-args",
        default="",
        metavar="ARGS",
        help="further flags of fsdp-run: --run-args='--poison --comm gloo'",
    )
    cache = default_folder()
    flag("--cache-dir", type=path, default=cache, metavar="DIR", help=f"({cache})")
    flag("--no-cache", action="store_true", help="do every stage again")
    flag("--verbose", action="store_true", help="show each stage's command and output")
    flag("--dry-run", action="store_true", help="show the commands and stop")
    flag("--nnodes", type=positive, default=1, metavar="N", help="machines (1)")
    flag("--node-rank", type=int, default=0, metavar="N", help="of this machine, from 0")
    flag("--master-addr", metavar="HOST", help="of machine 0")
    flag("--master-port", type=int, metavar="PORT", help="of machine 0")
    return parser


def flags_of(parser: ArgumentParser) -> dict[str, argparse.Action]:
    """The flags that a settings file may have, by their names without dashes."""
    left_out = {"help", "help-all", "config", "dry-run", "verbose"}
    return {
        name[2:]: action
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--") and name[2:] not in left_out
    }


def split(parser: ArgumentParser, argv: list[str]) -> tuple[list[str], list[str]]:
    """The flags of this program, and the step file with its own. What a flag may go without stands
    behind its `=`: the next word may be the step file."""
    takes = {
        name: action.nargs not in (0, "?")
        for action in parser._actions
        for name in action.option_strings
    }
    i = 0
    while i < len(argv) and argv[i].startswith("-"):
        i += 2 if takes.get(argv[i]) else 1
    return argv[:i], argv[i:]


def _refuse(parser: ArgumentParser, unknown: Sequence[str]) -> None:
    if not unknown:
        return
    name = unknown[0].partition("=")[0]
    if elsewhere := _elsewhere(name):
        parser.error(f"there is no flag {name}; {elsewhere}")
    known = [text for action in parser._actions for text in action.option_strings]
    close = difflib.get_close_matches(name, known, n=1)
    near = f"; the nearest is {close[0]}" if close else ""
    parser.error(f"there is no flag {name}{near} (flags of the step file stand behind it)")


def _elsewhere(name: str) -> str:
    """How to give what a program takes that this one calls; empty where none takes it."""
    run, opt = programs.find("fsdp-run"), programs.find("fsdp-opt")
    if run is None or opt is None or not name.startswith("--"):
        return ""

    def said(*command: object) -> str:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        return done.stdout + done.stderr

    if f"\n{name}\t" in f"\n{said(run, '--list-flags')}":
        return f"it is one of fsdp-run, given as --run-args='{name} ...'"
    # A value that no option has: only an option that is not there is told by its name alone.
    option = name[2:]
    if "has no option" in said(opt, "--fsdp-check-options", f"--fsdp-pipeline={option}=?"):
        return ""
    return f"it is an option of the compiler, given as --pipeline '{option}=...'"


def strayed(args: argparse.Namespace) -> list[str]:
    """Flags of this program that stand behind the step file, whose text has no such name."""
    known = {*flags_of(make_parser()), "verbose", "dry-run"}
    names = {word.partition("=")[0] for word in args.argv if word.startswith("--")}
    text = args.step_file.read_text(encoding="utf-8", errors="replace").replace("_", "-")
    return sorted(name for name in names if name[2:] in known and name[2:] not in text)


def _check(parser: ArgumentParser, args: argparse.Namespace) -> None:
    if args.steps and args.epochs:
        both = "both --steps and --epochs are given; give the one that sets the length"
        parser.error(both, E.FLAGS_DISAGREE)
    if args.trace_steps and not args.trace:
        alone = "--trace-steps says which steps --trace writes; give --trace FILE"
        parser.error(alone, E.FLAGS_DISAGREE)
    if args.wandb and (problem := why_not()):
        parser.error(problem, E.PACKAGE_MISSING)
    try:
        shlex.split(args.run_args)
    except ValueError as error:
        words = (
            f"--run-args: {str(error).lower()} in {args.run_args!r}; quote flags as a shell does"
        )
        parser.error(words)
    if args.node_rank < 0:
        parser.error(f"--node-rank {args.node_rank} is below 0, which is the first machine")
    if args.node_rank >= args.nnodes:
        beyond = f"--node-rank {args.node_rank} is not below --nnodes {args.nnodes}"
        parser.error(beyond, E.FLAGS_DISAGREE)
    if args.nnodes > 1 and not (args.master_addr and args.master_port):
        nowhere = "--nnodes needs --master-addr and --master-port, the same on every machine"
        parser.error(nowhere, E.FLAGS_DISAGREE)

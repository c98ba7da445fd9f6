"""python -m fsdp_mlir.checkpoint: what users ask of checkpoints."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import Callable, Optional, Sequence

from ..errors import ArgumentParser, E, ExportError, identified, interrupted, kind_of
from ..driver.progress import columns_of, data_beside
from .errors import CheckpointError, Damage
from .export_safetensors import export_safetensors
from .export_torch import export_torch
from .folder import MOST_STEPS
from .inspect import report, summary
from .pytorch_form import Skeleton, numbered
from .reader import Checkpoint, open_checkpoint
from .reshard import reshard
from .step_archive import Step
from .verify import damages

_INTO = "the folder of checkpoints to put it into"


def _number(least: int, most: int) -> Callable[[str], int]:
    """A function that reads a whole number of this range."""

    def read(text: str) -> int:
        # No number in question has more digits.
        if not re.fullmatch(r"-?[0-9]{1,19}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is no number from {least} to {most}")
        return int(text)

    return read


# As many as a plan may be for.
_ranks = _number(1, 2**20)


def _size(text: str) -> int:
    """Bytes of `5GB` or `300 MiB`, as Hugging Face's libraries read them."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)(i?)B?", text, re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(f"{text} is no size; give one such as 5GB")
    number, unit, binary = match.groups()
    size = int(float(number) * (1024 if binary else 1000) ** " KMGT".index(unit.upper() or " "))
    if not size:
        raise argparse.ArgumentTypeError(f"{text} is less than a byte; give one such as 5GB")
    return size


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog="python -m fsdp_mlir.checkpoint",
        description="looks into checkpoints of fsdp-run, and takes them to and from PyTorch's formats",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(
        name: str, what: str, path: str = "a checkpoint, or a folder of some: the newest"
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument("path", type=Path, metavar="PATH", help=path)
        return command

    command = add("inspect", "shows where a run was, and its tensors")
    command.add_argument("--json", action="store_true", help="as JSON")
    add("verify", "compares every byte with what was written; status 1 where one differs")
    command = add("export", "writes a checkpoint in a format of PyTorch's")
    command.add_argument("--to", choices=("safetensors", "dcp", "torch"), required=True)
    command.add_argument(
        "-o", type=Path, required=True, metavar="OUT", help="the new file (torch) or folder"
    )
    command.add_argument(
        "--archive", type=Path, metavar="STEP.pt", help="of the run: what it says of the optimizer"
    )
    command.add_argument(
        "--with-optimizer", action="store_true", help="safetensors: its state too, as PARAMETER/KEY"
    )
    command.add_argument(
        "--no-optimizer", action="store_true", help="dcp, torch: the model's state alone"
    )
    command.add_argument(
        "--max-shard-size",
        type=_size,
        default=_size("5GB"),
        metavar="SIZE",
        help="safetensors: of a file (default: 5GB)",
    )
    what = "makes a checkpoint, to be resumed from, of what PyTorch wrote"
    command = add("import", what, "a folder (dcp, safetensors) or a file")
    command.add_argument(
        "--from", dest="kind", choices=("safetensors", "dcp", "torch"), required=True
    )
    command.add_argument("-o", type=Path, required=True, metavar="FOLDER", help=_INTO)
    command.add_argument(
        "--archive", type=Path, required=True, metavar="STEP.pt", help="of the run that goes on"
    )
    command.add_argument(
        "--step",
        type=_number(0, MOST_STEPS),
        metavar="N",
        help="steps that are done (default: as the source says)",
    )
    command.add_argument(
        "--ranks",
        type=_ranks,
        default=1,
        metavar="N",
        help="of the run that goes on (default: 1)",
    )
    command.add_argument(
        "--weights", type=Path, metavar="PATH", help="for what no state_dict() has: of the export"
    )
    command.add_argument(
        "--data", type=Path, metavar="FILE", help="of the run (default: the one beside the archive)"
    )
    command.add_argument(
        "--seed",
        type=_number(-(2**63), 2**63 - 1),
        metavar="N",
        help="of the data's order (default: the step's)",
    )
    for flag, what in (("--model-key", "model's"), ("--optimizer-key", "optimizer's")):
        command.add_argument(flag, metavar="KEY", help=f"the source's key of the {what} state")
    command = add("reshard", "rewrites a checkpoint for another number of files")
    command.add_argument("--ranks", type=_ranks, required=True, metavar="N", help="files")
    command.add_argument("-o", type=Path, required=True, metavar="FOLDER", help=_INTO)
    return parser


def _run(args: argparse.Namespace) -> str:
    """Runs the command; returns the text to print."""
    if args.command == "import":
        return str(_import(args))
    with open_checkpoint(args.path) as checkpoint:
        if args.command == "inspect":
            return json.dumps(summary(checkpoint)) if args.json else report(checkpoint)
        if args.command == "export":
            return str(_export(checkpoint, args))
        if args.command == "reshard":
            return str(reshard(checkpoint, args.ranks, args.o))
        *others, last = damages(checkpoint) or [""]
        for line in others:
            print(f"error: {Damage(line)}", file=sys.stderr)
        if last:
            raise Damage(last)
        files = checkpoint.manifest.files
        count = sum(file.bytes for file in files)
        return f"{checkpoint.path} is whole: {len(files)} files, {count} bytes"


def _import(args: argparse.Namespace) -> Path:
    # torch.distributed takes half a second to import, and most commands do without it.
    from .importing import Choices, Import
    from .sources import open_source, open_weights

    step = Step(args.archive)
    data = args.data or data_beside(args.archive)
    columns = columns_of(data) if data else {}
    if not columns and args.data:
        raise CheckpointError(E.FILE_UNREADABLE, f"{data} cannot be read; give the run's data")
    if missing := [name for name in step.data_inputs if columns and name not in columns]:
        raise CheckpointError(
            E.DATA_MISSING,
            f"{data} has no column {', '.join(missing)}, which the step reads; give the run's data",
        )
    choices = Choices(
        steps=args.step,
        ranks=args.ranks,
        seed=args.seed,
        samples=next(iter(columns.values()), 0),
        model_key=args.model_key,
        optimizer_key=args.optimizer_key,
        weights=open_weights(args.weights) if args.weights else None,
    )
    work = Import(open_source(args.path, args.kind), step, choices)
    path = work.write(args.o)
    for text in work.notes:
        print(f"note: {text}", file=sys.stderr)
    return path


def _export(checkpoint: Checkpoint, args: argparse.Namespace) -> Path:
    if args.to == "safetensors":
        export_safetensors(checkpoint, args.o, args.max_shard_size, args.with_optimizer)
        return args.o
    skeleton = Skeleton(checkpoint)
    state = {"model": skeleton.model(), "step": checkpoint.manifest.run.step}
    if not args.no_optimizer:
        if args.archive is None:
            raise CheckpointError(
                E.EXPORT_FORM,
                "a checkpoint has no options of its optimizer; give --archive STEP.pt of the run, "
                "or leave the optimizer out with --no-optimizer",
            )
        step = Step(args.archive)
        state["optim"] = skeleton.optimizer(step, complete=args.to == "dcp")
        if scaler := skeleton.scaler(step):
            state["scaler"] = scaler
    if args.to == "dcp":
        from .export_dcp import export_dcp

        export_dcp(skeleton, state, args.o)
    else:
        if "optim" in state:
            if "+" in step.optimizer:
                raise CheckpointError(
                    E.EXPORT_FORM,
                    f"the step has the optimizers {step.optimizer.replace('+', ', ')}, and a file "
                    "of torch.save the state of one; use --to dcp, which has all by the names of "
                    "parameters, or --no-optimizer",
                )
            state["optim"] = numbered(state["optim"])
        export_torch(skeleton, state, args.o)
    return args.o


def _kind(error: OSError, out: Optional[Path]) -> E:
    """Whether something could not be read, or the output not be written."""
    if error.filename is None:
        return kind_of(error)
    name, wanted = os.path.abspath(error.filename), os.path.abspath(out or "")
    is_output = out is not None and (name.startswith(wanted) or wanted.startswith(name))
    return E.FILE_UNWRITABLE if is_output else E.FILE_UNREADABLE


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The status of the program."""
    args = _parser().parse_args(arguments)
    try:
        text = _run(args)
    except (CheckpointError, ExportError) as error:
        reason = str(error)
    except KeyboardInterrupt:
        return interrupted()
    except MemoryError as error:
        reason = identified(E.OUT_OF_MEMORY, f"{args.path}: {str(error).lower() or 'no memory'}")
    except OSError as error:
        where = error.filename or getattr(args, "o", args.path)
        what = f"{where}: {(error.strerror or str(error)).lower()}"
        reason = identified(_kind(error, getattr(args, "o", None)), what)
    else:
        print(text)
        return 0
    print(f"error: {reason}", file=sys.stderr)
    return 1

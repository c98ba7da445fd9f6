"""Trains a step file on sharded ranks: export, import, shard, plan, run.

    python -m fsdp_mlir.train --nproc 2 STEP.py [the step file's own flags]

What a step file may define besides `training_step(argv)`:

    PERPLEXITY = True                 print exp(eval_loss) for each epoch
    def after_training(argv, weights) called once with the trained state_dict
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import math
import signal
import sys
from pathlib import Path
from typing import Any, Callable, Optional, Sequence, Union

from .errors import E, exit_with, identified, interrupted, kind_of
from .untrusted import seen
from .checkpoint.errors import CheckpointError
from .checkpoint.folder import find_checkpoint, newest_in, run_of
from .driver import stages
from .driver.cache import Cache
from .driver.display import JsonDisplay, TextDisplay
from .driver.exported import check_exported, check_traced
from .driver.followers import Follower, feed, follow
from .driver.given_flags import check_flags, check_launcher
from .driver.given_paths import alone_in, check_paths, make_folder, note_of_saved
from .driver.kernels import table_in
from .driver.other_machines import tell_others
from .driver.outlet import outlets
from .driver.pipeline import Options, lowering, needs_table, with_mesh
from .driver.progress import archive_metadata, data_beside, length_of, sample_count
from .driver.run_command import (
    START,
    checkpoint_flags,
    event_folder,
    run_command,
    trace_file,
)
from .driver.stages import Runner, StageError
from .driver.step_hooks import after_training, constants
from .driver.settings import write_settings
from .driver.flags import flags_of, make_parser, parse, strayed
from .driver.wandb_run import WandbRun

Display = Union[TextDisplay, JsonDisplay]


def export_flags(args: argparse.Namespace) -> list[str]:
    """The flags of export by which the command line overrides the step file."""
    return [] if args.accumulate is None else ["--accumulate", str(args.accumulate)]


def make_report(args: argparse.Namespace, display: Display) -> Optional[Path]:
    """The run's page; where it cannot be made, a note: the run itself is good."""
    from .report import ReportError, read_run, write_report

    path = args.out / "report.html"
    try:
        write_report(read_run(args.out, args.metrics, args.trace), path)
    except ReportError as error:
        display.tell(f"note: no report: {error}")
        return None
    return path


def compile_step(
    args: argparse.Namespace, runner: Runner, tools: dict[str, Path], display: Display
) -> None:
    """Export to plan: leaves step.pt, step.mlir, step.fsdp.mlir, step.plan and
    the tensors in `args.out`."""
    cache = Cache(args.cache_dir, enabled=not args.no_cache)
    out = args.out
    if args.nnodes > 1 and needs_table(args.pipeline):
        raise StageError(
            E.FLAGS_DISAGREE,
            "kernels=fast on several machines needs one table for all of them, since each compiles "
            "the plan; give kernel-table=FILE, a copy on each (docs/kernels.md)",
        )
    display.begin("export")

    def place(made: Path) -> None:
        (out / "step.safetensors").unlink(missing_ok=True)
        for kind in ("data", "eval"):
            while (path := data_beside(out / "step.pt", kind)) is not None:
                path.unlink()
        for path in made.glob("step.*"):
            stages.place(path, out / path.name)

    ranks = args.nproc * args.nnodes
    needs = args.steps is None and args.epochs is None
    said, cached = stages.export(
        runner, cache, args.step_file, args.argv, ranks, place, export_flags(args), needs
    )
    check_exported(args, needs and cached, archive_metadata(out / "step.pt"))
    display.end("export", "step.pt", cached)
    display.tell(said)
    if args.weights:
        start_from(args, display)
    lower(runner, cache, tools, args.pipeline, ranks, out, display, display.tell)


def lower(
    runner: Runner,
    cache: Cache,
    tools: dict[str, Path],
    options: Options,
    ranks: int,
    out: Path,
    display: Any,
    tell: Callable[[str], None],
) -> None:
    """Compiles `out`/step.pt to step.plan beside it. `display` is told when a stage begins and
    ends, and `tell` what it had to say."""
    options = with_mesh(options, mesh_of(archive_metadata(out / "step.pt"), ranks))
    for command in lowering(options, table_in(cache, tools["fsdp-run"])):
        display.begin(command.stage)
        if command.stage == "tune":
            line = [tools[command.tool], *command.arguments(out)]
            said, _ = runner.run(command.stage, line)
            display.end(command.stage, said.strip())
            continue
        said, cached = stages.convert(
            runner,
            cache,
            command.stage,
            tools[command.tool],
            command.flags,
            out / command.source,
            out / command.target,
            out / "step.remarks.yaml" if command.stage == "shard" else None,
        )
        note = f"  {options}" if command.stage == "shard" else ""
        display.end(command.stage, command.target + note, cached)
        tell(said)


def check_weights(path: Path) -> None:
    """Raises StageError: a run cannot start from what is there."""
    from .archive.start_weights import WeightsError, tensor_reads

    try:
        tensor_reads(path)
    except WeightsError as error:
        raise StageError(error.kind, f"--weights: {error.message}") from error


def start_from(args: argparse.Namespace, display: Display) -> None:
    """Writes OUT/start.safetensors: the given weights, and what else a run starts with."""
    from .archive.start_weights import WeightsError, compose

    display.begin("weights")
    metadata = archive_metadata(args.out / "step.pt")
    try:
        notes = compose(args.weights, args.out / "step.safetensors", metadata, args.out / START)
    except WeightsError as error:
        raise StageError(error.kind, f"--weights: {error.message}") from error
    display.end("weights", START)
    display.tell("".join(f"note: {line}\n" for line in notes))


def mesh_of(metadata: dict[str, Any], world: int) -> list[int]:
    """The ranks along each dimension of the mesh: as the model describes it, or all along one.

    Raises:
        StageError: the run has not as many ranks as the model's mesh.
    """
    mesh = metadata.get("mesh")
    if not mesh:
        return [world]
    if (ranks := math.prod(mesh["shape"])) != world:
        raise StageError(
            E.WORLD_SIZE,
            f"the model's mesh has {ranks} ranks and this run {world}; give "
            f"--nproc {ranks}, or describe another mesh (the environment's WORLD_SIZE is the "
            "number of ranks)",
        )
    return mesh["shape"]


def commands(args: argparse.Namespace, runner: Runner, tools: dict[str, Path]) -> None:
    """The whole way as command lines. Nothing has been exported, so the mesh of a model that
    describes one is not known: a note says what to leave out then."""
    out = args.out
    ranks = args.nproc * args.nnodes
    runner.show(
        [
            sys.executable,
            "-m",
            "fsdp_mlir.export",
            *export_flags(args),
            "-o",
            out / "step.pt",
            args.step_file,
            *args.argv,
        ],
        {"WORLD_SIZE": str(ranks)},
    )
    options = with_mesh(args.pipeline, [ranks])
    for command in lowering(options, out / "kernels.toml"):
        runner.show([tools[command.tool], *command.arguments(out)])
    # Whether a report's trace can be written is known when there is a plan.
    runner.show(run_command(args, tools["fsdp-run"], out, args.trace))
    if not args.pipeline.get("mesh"):
        print(f"note: leave mesh={ranks} out if the model has a mesh of its own", file=sys.stderr)


def check_checkpoints(args: argparse.Namespace) -> None:
    """Leaves in `args.then` where the run before this one was, which goes on from it. `fsdp-run`
    refuses a folder of another run too, but what that run left in OUT would be written over by then.

    Raises:
        StageError: there is nothing to go on from, or the folder has checkpoints, and this run does
            not go on from one.
    """
    resumed = None
    if args.resume not in (None, "auto"):
        try:
            resumed = find_checkpoint(Path(args.resume))
        except CheckpointError as error:
            raise StageError(error.kind, f"--resume: {error.message}") from error
    folder = checkpoint_flags(args).get("--checkpoint-dir")
    newest = newest_in(folder) if folder is not None and folder.is_dir() else None
    if newest is not None and not args.resume:
        raise StageError(
            E.CHECKPOINT_FOLDER,
            f"folder {folder} has checkpoints of a run, the newest of step "
            f"{int(newest.name.removeprefix('step-'))}; go on with --resume auto, or name another "
            "folder",
        )
    found = resumed or newest
    args.then = run_of(found) if found else {}


def train(args: argparse.Namespace) -> None:
    if args.step_file.is_dir():
        raise StageError(E.STEP_FILE, f"{args.step_file} is a folder; name the step file in it")
    if not args.step_file.is_file():
        others = [str(path) for path in args.step_file.parent.glob("*.py")]
        close = difflib.get_close_matches(str(args.step_file), others, n=1, cutoff=0.7)
        near = f"; the nearest is {close[0]}" if close else ""
        raise StageError(E.STEP_FILE, f"{args.step_file}: no such step file{near}")
    args.step_file = args.step_file.resolve()
    args.out = args.out or Path("out") / args.step_file.stem
    as_given = argparse.Namespace(**vars(args))
    args.metrics = args.metrics or args.out / "metrics.jsonl"
    args.save = args.save or args.out / "trained.safetensors"
    runner = Runner(args.verbose, args.dry_run)
    tools = stages.find_tools()
    check_launcher()
    check_flags(args, tools)
    if args.dry_run:
        commands(args, runner, tools)
        return
    make_folder("--out", args.out)
    # Several machines may share the folder.
    with outlets(), alone_in(args.out) if args.nnodes == 1 else contextlib.nullcontext():
        train_in_folder(args, as_given, runner, tools)


def train_in_folder(
    args: argparse.Namespace,
    as_given: argparse.Namespace,
    runner: Runner,
    tools: dict[str, Path],
) -> None:
    """Trains in `args.out`, which is there. `as_given`: `args` without what follows from others."""
    check_paths(args)
    check_checkpoints(args)
    check_traced(args, args.steps)
    if args.weights:
        check_weights(args.weights)
    write_settings(args.out / "run.toml", as_given, flags_of(make_parser()))
    display = JsonDisplay() if args.log_format == "json" else TextDisplay()
    _tell_notes(args, display)
    compile_step(args, runner, tools, display)
    hooks = constants(args.step_file)
    ranks = args.nproc * args.nnodes
    data = data_beside(args.out / "step.pt")
    samples = sample_count(data) if data else None
    length = length_of(
        archive_metadata(args.out / "step.pt"), samples, ranks, args.steps, args.epochs, args.then
    )
    for name in ("trace.json", "summary.json", "report.html"):
        (args.out / name).unlink(missing_ok=True)
    if not args.resume:
        args.metrics.unlink(missing_ok=True)
    before = list(follow(args.metrics, lambda: False))
    display.begin("run")
    followers: list[Follower] = []
    if args.wandb and args.node_rank == 0:
        followers.append(_wandb_run(args, as_given, display))
    shown = display.run(
        ranks, length, bool(hooks.get("PERPLEXITY")), each_row=args.log_interval is not None
    )
    followers.append(shown)

    def consume(running: Any) -> None:
        feed(followers, follow(args.metrics, running), before, shown)

    command = run_command(args, tools["fsdp-run"], args.out, trace_file(args))
    args.has_started = True
    stages.run(runner, command, consume)
    display.end("done", f"results in {args.out}")
    if args.node_rank == 0:
        rows = list(follow(args.metrics, lambda: False))
        finish(args, display, rows, hooks, ranks)


def _tell_notes(args: argparse.Namespace, display: Display) -> None:
    if (saved := note_of_saved(args.save)) is not None:
        display.tell(f"note: --save {saved}\n")
    for flag in strayed(args):
        display.tell(
            f"note: {flag} stands behind {args.step_file.name}, which has no such flag; a flag of "
            "the driver stands in front of it\n"
        )


def _wandb_run(
    args: argparse.Namespace, as_given: argparse.Namespace, display: Display
) -> Follower:
    config = {name: str(value) for name, value in vars(as_given).items() if value}
    del config["origin"]
    return WandbRun(args.step_file.stem, args.out, config, bool(args.resume), display.tell)


def finish(
    args: argparse.Namespace,
    display: Display,
    rows: list[dict[str, Any]],
    hooks: dict[str, Any],
    ranks: int,
) -> None:
    from .driver.plots import loss_curve

    picture = args.out / "loss.png"
    wrote = {"metrics": args.metrics, "weights": args.save}
    if loss_curve(rows, picture, seen(f"{args.step_file.stem}, {ranks} ranks")):
        wrote["loss curve"] = picture
    if args.trace:
        wrote["trace"] = args.trace
    if args.tensorboard is not None:
        wrote["TensorBoard"] = event_folder(args, args.out)
    if "--checkpoint-dir" in (given := checkpoint_flags(args)):
        wrote["checkpoints"] = given["--checkpoint-dir"]
    if args.eval_outputs:
        wrote["outputs"] = args.eval_outputs
    if args.report and (page := make_report(args, display)) is not None:
        wrote["report"] = page
    display.wrote(args.out, wrote)
    if hooks.get("after_training"):
        after_training(args.step_file, args.argv, args.save)


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = parse(argv)
    args.has_started = False  # ranks, which tell the other machines' themselves
    # As an interrupt: the ranks end their step.
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        train(args)
    except StageError as error:
        # Of status 0 is a step file's --help.
        if error.code == 0:
            print(error)
            return 0
        text = args.origin.located(str(error))
        print(f"error: {text}", file=sys.stderr)
        if not args.has_started:
            tell_others(args, text)
        return error.code
    except KeyboardInterrupt:
        return interrupted()
    except OSError as error:
        if args.dry_run:
            raise  # the commands could not be printed
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        print(f"error: {identified(kind_of(error), what)}", file=sys.stderr)
        if not args.has_started:
            tell_others(args, what)
        return 1
    return 0


if __name__ == "__main__":
    exit_with(main)

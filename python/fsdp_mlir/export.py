"""`python -m fsdp_mlir.export -o step.pt STEP.py [flags]`: a step file to an archive."""

from __future__ import annotations

import argparse
import math
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any, Callable, Collection, Iterable, Mapping, Optional, Sequence, Union

import torch

from .errors import (
    ArgumentParser,
    E,
    ExportError,
    ExportNote,
    each_said_once,
    exit_with,
    note,
)
from .archive.container import FORMAT_VERSION, build_archive
from .archive.missed_steps import name_missed
from .capture.graph.changed_parameters import UntrainedParametersChanged
from .capture.context import seldom_collected, without_pytorchs_log
from .capture.state.kept import Kept
from .capture.state.state_kept import StateKept
from .capture.graph.program import Program, Setting
from .capture.graph.set_parameters import set_in_steps
from .capture.operators.collectives import Ranks
from .capture.step_graph import capture
from .step.clipping import describe_clipping
from .data.checks import warn_of_loader
from .data.files import FileData
from .dtypes import require_computed
from .step.eager_only import check_eager_only
from .step.line_fields import STANDARD
from .step.failures import words_of
from .step.held_tensors import release_model
from .step.names import StateNames
from .step.on_host import on_host
from .step.pairs import check_complex
from .step.process_groups import world_size
from .rules.optimizer import read_optimizer, warn_untrained
from .rules.schedule import read_schedule
from .capture.graph.rewrite import prepare
from .step.scaler import describe_scaler
from .step.programs import StepProgram, check_batches, programs_of, shapes_text
from .archive.torchscript import ProgramWriter
from .step.training_step import TrainingStep, checked_accumulate, load_training_step
from .untrusted import make_file
from .archive.step_facts import (
    describe_buffers,
    describe_constants,
    describe_inputs,
    describe_length,
    describe_modules,
    describe_parameters,
)
from .archive.unit_table import UnitTable, describe_units
from .archive.weights import save_tensors, save_weights

NO_LENGTH = (
    "the step has no length; give TrainingStep epochs or steps, or the command line --epochs or "
    "--steps"
)


def export_step(
    step: TrainingStep,
    path: Union[str, Path],
    source: str = "",
    weights: bool = True,
    ranks: Optional[int] = None,
) -> list[Path]:
    """Writes the archive `path`, and the weights and data beside it; returns the files written.

    Args:
        step: what to export. The model is read in place and not changed.
        path: `NAME.pt`; beside it `NAME.safetensors`, and where there is data `NAME.data.*` and
            `NAME.eval.*`: tensors as `.safetensors`, a description of files as `.json`.
        source: the step file's name, for messages.
        weights: False for a model under fake tensors: the archive and nothing else.
        ranks: how many ranks the step's own collectives are among, where the model has no mesh; None: the
            environment's WORLD_SIZE, if it is there.

    Raises:
        ExportError: the step cannot be exported. No file is then left, and files of an earlier
            export stay as they were.
    """
    changed: frozenset[str] = frozenset()
    kept: dict[str, Kept] = {}
    release_model(step.model)
    with seldom_collected(), each_said_once(), without_pytorchs_log(), on_host(step):
        while True:
            try:
                names = StateNames(step, changed, kept)
                return _export(step, Path(path), source, weights, names, ranks)
            except UntrainedParametersChanged as found:
                note(str(found))
                changed |= found.names
            except StateKept as found:
                found.check_new(kept)
                note(str(found))
                kept |= found.kept


def _export(
    step: TrainingStep,
    path: Path,
    source: str,
    weights: bool,
    names: StateNames,
    world: Optional[int],
) -> list[Path]:
    if names.fake_mode is not None and weights:
        raise ExportError(
            E.FIRST_VALUES,
            "the step is built under fake tensors, which hold no weights; export with --no-weights",
        )
    _check_states(step, names)
    schedule = read_schedule(step)
    read = read_optimizer(step, names, schedule)
    sharding = describe_units(step, names)
    if step.scaler is None:
        _warn_half(names, sharding)
    check_batches(step.batches, step.accumulate)
    for what, data in (("data", step.data), ("eval_data", step.eval_data)):
        warn_of_loader(what, data, step.batches, world_size() or 1)
    ranks = Ranks(math.prod(sharding.mesh["shape"]) if sharding.mesh else world or world_size())
    captured = _capture_programs(step, names, sharding, read.held, ranks)
    missed = name_missed(list(captured.values()), read.held)
    settings = _settings(step, names, sharding, captured, read.held, missed)
    if settings:
        read = read_optimizer(step, names, schedule, settings)
    optimizer, rules = read.describe(missed)
    programs = {
        wanted.name: ProgramWriter(captured[wanted.name], names, wanted)
        for wanted in _programs_of(step)
    }
    metadata = {
        "format": "fsdp-mlir",
        "format_version": FORMAT_VERSION,
        "torch_version": torch.__version__.partition("+")[0],
        "source": os.path.basename(source),
        "programs": {name: writer.description for name, writer in programs.items()},
        "modules": describe_modules(step, names),
        "mesh": sharding.mesh,
        "ranks": ranks.count if ranks.computed else 0,
        "units": sharding.units,
        "parameters": describe_parameters(names, sharding),
        "buffers": describe_buffers(step, names, missed.values()),
        "constants": describe_constants(names),
        "inputs": describe_inputs(step),
        "optimizer": optimizer,
        **describe_clipping(step.clip_grad_norm, step.clip_grad_value),
        "scaler": describe_scaler(step.scaler),
        "schedule": schedule and schedule.describe(),
        "length": describe_length(step),
        "accumulate": step.accumulate,
        "seed": step.seed,
        "rank_metrics": [],
    }
    sources = {name: writer.source for name, writer in programs.items()} | rules
    archive = build_archive(sources, metadata)
    return _write_files(path, step, names, archive, weights)


def _check_states(step: TrainingStep, names: StateNames) -> None:
    check_eager_only(step)
    for fqn, tensor in names.parameters.items():
        if tensor.requires_grad:
            require_computed(tensor.dtype, f"the trainable parameter {fqn}")
    check_complex(step, names.parameters)


def _capture_programs(
    step: TrainingStep,
    names: StateNames,
    sharding: UnitTable,
    held: Collection[str],
    ranks: Ranks,
) -> dict[str, Program]:
    """The step's programs by name, each ready to be written; optimizers hold the parameters `held`."""
    programs: dict[str, Program] = {}
    for wanted in _programs_of(step):
        program = capture(step, wanted, names, sharding.precision, ranks)
        prepare(program)
        programs[wanted.name] = program
        if wanted.variant_of is not None:
            _check_variant(wanted, program, programs[wanted.variant_of])
        elif wanted.trains:
            _warn_unreached(program, names, wanted, held)
            _check_outputs(program, step)
    return programs


def _settings(
    step: TrainingStep,
    names: StateNames,
    sharding: UnitTable,
    captured: Mapping[str, Program],
    held: Collection[str],
    missed: Collection[str],
) -> dict[str, Setting]:
    """What sets each trained parameter that the steps set.

    Args:
        held: the parameters that an optimizer holds.
        missed: those that a step may give no gradient.
    """
    kept = sharding.precision.dtypes
    updated = {
        fqn: tensor
        for fqn, tensor in names.parameters.items()
        if fqn in held and kept.get(fqn) in (None, tensor.dtype)
    }
    programs: dict[bool, list[Program]] = {True: [], False: []}
    for wanted in _programs_of(step):
        programs[wanted.trains].append(captured[wanted.name])
    is_often = step.accumulate > 1 or step.scaler is not None
    return set_in_steps(programs[True], programs[False], updated, updated if is_often else missed)


def _programs_of(step: TrainingStep) -> Iterable[StepProgram]:
    return programs_of(step.batches, step.turns, evaluates=step.eval_data is not None)


def _write_files(
    path: Path, step: TrainingStep, names: StateNames, archive: bytes, weights: bool
) -> list[Path]:
    files: list[tuple[Path, Callable[[Path], Any]]] = []
    if weights:
        files.append((path.with_suffix(".safetensors"), lambda p: save_weights(p, step, names)))
        for suffix, data in ((".data", step.data), (".eval", step.eval_data)):
            if isinstance(data, FileData):
                name = path.with_suffix(f"{suffix}.json")
                files.append((name, lambda p, data=data: _write(p, data.description().encode())))
            elif isinstance(data, Mapping):
                name = path.with_suffix(f"{suffix}.safetensors")
                files.append((name, lambda p, data=data: save_tensors(p, data)))
    # The archive last: where it is, the others are.
    files.append((path, lambda p: _write(p, archive)))
    temporary = [(name.with_name(f".{name.name}.{os.getpid()}"), name) for name, _ in files]
    try:
        for (new, _), (_, write) in zip(temporary, files):
            write(new)
        for new, name in temporary:
            os.replace(new, name)
        # Data of an earlier export in the other form is none of this one's.
        for kind in ("data", "eval"):
            for other in (path.with_suffix(f".{kind}.{form}") for form in ("json", "safetensors")):
                if weights and other not in dict(files):
                    other.unlink(missing_ok=True)
    except OSError as error:
        raise ExportError(
            E.FILE_UNWRITABLE, f"{error.filename or path}: {error.strerror or error}"
        ) from error
    finally:
        for new, _ in temporary:
            new.unlink(missing_ok=True)
    return [name for name, _ in files]


def _write(path: Path, content: bytes) -> None:
    with make_file(path) as file:
        file.write(content)


def _warn_half(names: StateNames, sharding: UnitTable) -> None:
    for fqn, tensor in names.parameters.items():
        dtype = sharding.precision.dtypes.get(fqn, tensor.dtype)
        if tensor.requires_grad and dtype == torch.float16:
            how = "float16" if tensor.dtype == dtype else "computed with in float16"
            warnings.warn(
                f"{fqn} is trainable and {how}: without a loss scale small gradients become zero; "
                'give TrainingStep scaler=torch.amp.GradScaler("cpu"). bfloat16 needs none'
            )
            return


def _warn_unreached(
    program: Program, names: StateNames, wanted: StepProgram, held: Collection[str]
) -> None:
    """Warns of parameters that an optimizer holds and the loss does not reach."""
    (turn,) = wanted.turns
    loss = f"the loss of {turn.name}" if turn.name else "the loss"
    reached = {result.fqn for result in program.results if result.role == "gradient"}
    asked = [
        fqn
        for fqn, tensor in names.parameters.items()
        if tensor.requires_grad and turn.trains(tensor) and fqn in held
    ]
    warn_untrained([fqn for fqn in asked if fqn not in reached], f"not reached by {loss}")


def _check_variant(wanted: StepProgram, program: Program, first: Program) -> None:
    """Batches of all shapes train the same parameters and give the same numbers."""
    here, there = (
        {(r.role, r.fqn) for r in one.results if r.role != "has_gradient"}
        for one in (program, first)
    )
    for role, fqn in sorted(here ^ there):
        what = {"gradient": "a gradient of", "buffer_update": "a new value of"}.get(role, "metric")
        has, lacks = ("has", "there is none") if (role, fqn) in here else ("lacks", "it is there")
        raise ExportError(
            E.STEP_INPUTS,
            f"a batch of {shapes_text(wanted.inputs)} {has} {what} {fqn}, and {lacks} with the "
            "first of inputs; batches of all shapes must use the same parameters, buffers and "
            "metrics",
        )


def _check_outputs(program: Program, step: TrainingStep) -> None:
    named = {result.fqn for result in program.results if result.role == "output"}
    for option, given, name in (
        ("clip_grad_norm", step.clip_grad_norm, "grad_norm"),
        ("scaler", step.scaler, "loss_scale"),
    ):
        if given and name in named:
            raise ExportError(
                E.NAME_TAKEN,
                f"metrics returns {name}, which is the name of what {option} gives; call it "
                "something else",
            )
    for name in sorted(named & STANDARD):
        raise ExportError(
            E.NAME_TAKEN,
            f"metrics returns {name}, which each line of a run's metrics has itself "
            "(docs/metrics.md); call it something else",
        )


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog="python -m fsdp_mlir.export",
        description="Export a training step: archive, weights and data.",
    )
    add = parser.add_argument
    add("-o", "--output", required=True, metavar="STEP.pt", help="the archive")
    add("--no-weights", action="store_true", help="write the archive alone (fake tensors)")
    add("--accumulate", type=int, metavar="K", help="micro-batches per step (the step file's)")
    add("--needs-length", action="store_true", help="refuse a step without epochs or steps")
    add("--traceback", action="store_true", help="show where an error came from")
    add("step", metavar="STEP.py", help="defines training_step(argv)")
    flags = add("flags", nargs=argparse.REMAINDER, help="the step file's own flags")
    flags.required = False  # to be asked for
    return parser


def _check_output(path: Path) -> None:
    """Raises ExportError where no file can be written, before a step is captured for it."""
    if path.is_dir():
        raise ExportError(E.FILE_UNWRITABLE, f"{path} is a folder; name the archive in it")
    if not path.parent.is_dir():
        raise ExportError(
            E.FILE_UNWRITABLE, f"{path}: there is no folder {path.parent} to write it into"
        )


def main(argv: Optional[Sequence[str]] = None) -> int:
    """The command line; returns the exit status."""
    options = _parser().parse_args(argv)
    warnings.showwarning = _show_warning
    step: Optional[TrainingStep] = None
    try:
        if Path(options.output).suffix != ".pt":
            raise ExportError(E.FLAG, f"{options.output}: the archive's name must end in .pt")
        _check_output(Path(options.output))
        step = load_training_step(options.step, options.flags)
        if options.accumulate is not None:
            step.accumulate = checked_accumulate(options.accumulate)
        if options.needs_length and describe_length(step) is None:
            raise ExportError(E.RUN_LENGTH, NO_LENGTH)
        files = export_step(step, options.output, options.step, weights=not options.no_weights)
    except (Exception, SystemExit) as error:
        if options.traceback:
            traceback.print_exc()
        if (text := words_of(error, options.step, step.made_at if step else "")) is None:
            raise
        print(f"error: {text}", file=sys.stderr)
        return 1
    for file in files:
        print(f"wrote {file} ({file.stat().st_size} bytes)")
    return 0


def _show_warning(
    message: Any, category: type, filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    text = " ".join(str(message).split())
    label = "note" if issubclass(category, ExportNote) else "warning"
    print(f"{label}: {text}", file=sys.stderr)


if __name__ == "__main__":
    exit_with(main)

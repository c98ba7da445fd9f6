"""`compile`: export, passes, plan and load in one call, for a loop of one's own."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

import torch

from ..driver import stages
from ..driver.cache import Cache, default_folder
from ..errors import E, RankFailure, RunError, note
from ..export import export_step
from ..options import OptionError, nearest
from .arguments import check_load
from .extension import runtime
from ..driver.pipeline import Options
from ..driver.progress import archive_metadata
from .run import PathLike, Run, load
from .watched import WatchedModel
from ..archive.start_weights import WeightsError, compose
from ..driver.run_command import START
from ..train import lower
from ..step.training_step import TrainingStep


class _Silent:
    """A display of stages that shows nothing."""

    def begin(self, name: str) -> None: ...

    def end(self, name: str, text: str, cached: bool = False) -> None: ...


def compile(
    step: Union[TrainingStep, PathLike],
    *,
    pipeline: str = "",
    argv: Sequence[str] = (),
    weights: Optional[PathLike] = None,
    out: Optional[PathLike] = None,
    cache_dir: Optional[PathLike] = None,
    cache: bool = True,
    timeout: float = 1800,
    rendezvous: str = "env://",
    **options: Any,
) -> Run:
    """Compiles a training step for the ranks of the environment, and loads it. Collective.

    Rank 0 compiles; what was compiled before comes from the driver's cache. A `TrainingStep` is
    exported each time, which reads its model and changes nothing; a step file only when it or
    what it read has changed.

    Args:
        step: a `TrainingStep`, or a step file. Of a TrainingStep, rank 0's is what all ranks train.
            Its optimizer's groups keep their learning rates: a scheduler that the script steps
            sets the run's, unless `lr_schedule` is given.
        pipeline: options of the pipeline (docs/options.md); the mesh is the number of ranks.
        argv: the step file's own flags.
        weights: what it starts from instead of the model's own values: safetensors, a folder of
            them, or a `torch.save` of state_dict().
        out: a folder that keeps the files; by default they are removed when all ranks have loaded.
            Ranks on several hosts need one that all of them see.
        cache_dir: the cache's folder; with `cache=False` it is not read.
        timeout: as that of `load`, and for rank 0 to compile; with 0 that may take half an hour.
        rendezvous: as that of `load`.
        **options: further ones of `load`.

    Raises:
        ExportError: the step cannot be exported. RunError: it cannot be compiled or loaded.
        RankFailure: on the other ranks, where it fails on one.
    """
    _check_options(options)
    check_load({**options, "weights": weights, "timeout": timeout, "rendezvous": rendezvous})
    if not isinstance(step, (TrainingStep, str, os.PathLike)):
        raise RunError(
            E.STEP_ARGUMENT,
            f"step is {type(step).__name__}; give a TrainingStep, or the path of a step file",
        )
    if not isinstance(pipeline, str):
        raise RunError(
            E.STEP_ARGUMENT,
            f"pipeline is {type(pipeline).__name__}; give the options as a text, as in "
            "'units=auto shard-layout=flat'",
        )
    if not isinstance(step, TrainingStep) and argv and isinstance(argv, str):
        raise RunError(E.STEP_ARGUMENT, "argv is a text; give a list of flags")
    rank, size = runtime().membership()
    kept = Path(out) if out is not None else None
    # With 0 a plan says what to expect, of which there is none yet: as long as by default.
    board = _Board(rank, size, rendezvous, timeout or 1800)
    temporary: Optional[str] = None
    try:
        if rank == 0:
            try:
                temporary = None if kept else tempfile.mkdtemp(prefix="fsdp-mlir-")
                folder = kept or Path(temporary or "")
                start = _make(step, folder, pipeline, argv, weights, cache_dir, cache, size)
            except BaseException as error:
                board.post({"error": " ".join(str(error).split()) or type(error).__name__})
                raise
            board.post({"folder": str(folder.resolve()), "start": start})
        else:
            said = board.read()
            if "error" in said:
                raise RankFailure(E.PEER_FAILED, f"rank 0 failed: {said['error']}")
            folder, start = Path(said["folder"]), said["start"]
            if not (folder / "step.plan").is_file():
                raise RunError(
                    E.FILE_UNWRITABLE,
                    f"rank {rank} does not see {folder}, where rank 0 has compiled; give compile() "
                    "out=, a folder that all hosts share",
                )
        run = load(
            folder / "step.plan",
            folder / start,
            optimizer=_followed(step),
            timeout=timeout,
            rendezvous=rendezvous,
            **options,
        )
        if isinstance(step, TrainingStep):
            run._watch(WatchedModel(step))
        return run
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def _check_options(options: Mapping[str, Any]) -> None:
    """Raises OptionError: one is neither of `compile` nor of `load`."""
    of_load = inspect.signature(load).parameters.keys() - {"plan", "optimizer"}
    known = sorted((inspect.signature(compile).parameters.keys() | of_load) - {"options"})
    for name in options:
        if name not in of_load:
            raise OptionError(
                E.STEP_ARGUMENT,
                f"compile has no option {name!r}; the nearest is {nearest(name, known)!r}, all are "
                f"{', '.join(known)}",
            )


def _followed(step: Union[TrainingStep, PathLike]) -> Any:
    """The optimizer whose schedulers the script may step: with `lr_schedule` the plan has them."""
    if not isinstance(step, TrainingStep) or step.lr_schedule is not None:
        return None
    return step.optimizer


def _make(
    step: Union[TrainingStep, PathLike],
    out: Path,
    pipeline: str,
    argv: Sequence[str],
    weights: Optional[PathLike],
    cache_dir: Optional[PathLike],
    use_cache: bool,
    ranks: int,
) -> str:
    """Leaves step.plan and its weights in `out`; the name of the weights to start from."""
    try:
        runner = stages.Runner()
        tools = stages.find_tools()
        store = Cache(Path(cache_dir) if cache_dir else default_folder(), enabled=use_cache)
        given = Options.of([pipeline])
        stages.check_pipeline(tools["fsdp-opt"], given, "pipeline")
        out.mkdir(parents=True, exist_ok=True)
        if isinstance(step, TrainingStep):
            # A capture draws random numbers; the script's stay as they are.
            with torch.random.fork_rng(devices=[]):
                export_step(step, out / "step.pt", ranks=ranks)
        else:
            file = Path(step).resolve()
            if not file.is_file():
                raise RunError(E.STEP_FILE, f"{step}: no such step file")

            def place(made: Path) -> None:
                for path in made.glob("step.*"):
                    stages.place(path, out / path.name)

            said, _ = stages.export(runner, store, file, list(argv), ranks, place)
            _tell(said)
        lower(runner, store, tools, given, ranks, out, _Silent(), _tell)
        if weights is None:
            return "step.safetensors"
        metadata = archive_metadata(out / "step.pt")
        for line in compose(Path(weights), out / "step.safetensors", metadata, out / START):
            note(line)
        return START
    except (stages.StageError, WeightsError) as error:
        raise RunError(error.kind, error.message) from error
    except OSError as error:
        raise RunError(
            E.FILE_UNWRITABLE, f"{out} cannot be written: {error}; give another out="
        ) from error


def _tell(said: str) -> None:
    for line in said.splitlines():
        note(line.removeprefix("note: ").removeprefix("warning: "))


class _Board:
    """The place where rank 0 leaves what the others wait for, before they meet to train."""

    _numbers = itertools.count()  # all ranks compile alike
    _kept: list[Any] = []  # rank 0 may serve a store, which others still read

    def __init__(self, rank: int, size: int, rendezvous: str, timeout: float) -> None:
        self.store: Any = None
        if size == 1:
            return
        number = next(self._numbers)
        # A file is removed by those who leave it last, so it is this board's own.
        own = f".compile{number}" if rendezvous.startswith("file://") else ""
        url = rendezvous + own
        try:
            import torch.distributed as dist

            waits = timedelta(seconds=timeout)
            store, _, _ = next(dist.rendezvous(url, rank, size, timeout=waits))
        except (ValueError, RuntimeError) as error:
            raise RunError(E.MEETING_FAILED, f"the ranks cannot meet: {error}") from error
        run = os.environ.get("TORCHELASTIC_RUN_ID", ""), os.environ.get(
            "TORCHELASTIC_RESTART_COUNT", ""
        )
        self.store = dist.PrefixStore(f"fsdp-compile/{'/'.join(run)}/{number}", store)
        self.store.set_timeout(waits)
        self._kept.append(self.store)

    def post(self, what: dict[str, str]) -> None:
        if self.store is not None:
            self.store.set("said", json.dumps(what))

    def read(self) -> dict[str, str]:
        try:
            return json.loads(self.store.get("said"))
        except RuntimeError as error:
            text = str(error).splitlines()[0]
            raise RankFailure(
                E.PEER_SILENT, f"rank 0 has not compiled in time, or ended: {text}"
            ) from error

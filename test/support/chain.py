"""Runs the chain step file -> archive -> IR -> plan -> training, as a user would.

The programs are taken from $FSDP_MLIR_BIN, else from build/bin. Each call writes
into the folder it is given. Programs that load PyTorch run in copies of a process
that has loaded it (fork_server.py), and a step is exported once in a session.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import os
import pathlib
import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
from typing import Any, Callable, Sequence

from support.fork_server import ForkServer

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python"
TIMEOUT_S = 300

# The programs that load much, with what they load only while they run.
LOADED_LATE = {"fsdp-run": (), "fsdp-translate": ("libfsdp_archive.so",), "fsdp-opt": ()}

# Where pytest keeps the exports of a session (conftest.py); None: nowhere.
exports: pathlib.Path | None = None

# Step functions that were given as callables, by the key their file names.
_callables: dict[str, Callable[[list[str]], Any]] = {}


class ChainError(AssertionError):
    """A program of the chain failed; the message holds what it wrote."""

    def __init__(self, command: Sequence[str], code: int, output: str):
        super().__init__(f"{' '.join(map(str, command))}\nexit {code}\n{output}")
        self.code = code
        self.output = output


@dataclasses.dataclass
class Compiled:
    """The files of one compiled step; `weights`, `data` and `eval_data` may be None."""

    step_file: pathlib.Path
    argv: tuple[str, ...]
    archive: pathlib.Path
    weights: pathlib.Path | None
    data: pathlib.Path | None
    eval_data: pathlib.Path | None
    ir: pathlib.Path
    scheduled: pathlib.Path
    plan: pathlib.Path


@dataclasses.dataclass
class Result:
    """What a run left: a dictionary per logged step, totals, saved tensors."""

    metrics: list[dict[str, Any]]
    summary: dict[str, Any]
    weights: dict[str, Any]
    output: str

    @property
    def losses(self) -> list[float]:
        return [row["loss"] for row in self.metrics if "loss" in row]


def binary(name: str) -> pathlib.Path:
    folder = os.environ.get("FSDP_MLIR_BIN", ROOT / "build" / "bin")
    path = pathlib.Path(folder) / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is not built; set FSDP_MLIR_BIN or build it")
    return path


def imitated_gpus() -> pathlib.Path:
    """The folder of the programs on imitated GPUs; skips where the build has no CUDA."""
    import pytest

    programs = binary("fsdp-run").parent
    if not (programs / "libfsdp_cuda.so").exists():
        pytest.skip("this build has no CUDA, and so no imitation of it")
    assert (programs / "imitated" / "fsdp-run").exists(), "build fsdp-run-imitated"
    return programs / "imitated"


def empty_gpu() -> pathlib.Path:
    """To preload: a GPU whose memory and copies are there, and whose kernels do nothing. Skips where
    the build has no CUDA."""
    imitated_gpus()
    return ROOT / "build" / "test" / "gpu" / "imitation" / "libcuda.so.1"


def environment(**changes: str) -> dict[str, str]:
    """The environment of a run: one thread, no launcher's variables."""
    env = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_"))
        and key not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    }
    path = [str(PYTHON)] + env.get("PYTHONPATH", "").split(os.pathsep)
    env.update(OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(filter(None, path)))
    env.update(changes)
    return env


@functools.cache
def server_of(program: str) -> ForkServer | None:
    """What runs a program of ours."""
    path = pathlib.Path(program)
    preload = ROOT / "build" / "bin" / "fork_server.so"
    ours = path.name in LOADED_LATE and path.is_relative_to(preload.parent)
    if not ours or not preload.exists():
        return None
    late = [path.parent / library for library in LOADED_LATE[path.name]]
    return ForkServer(path, preload, late, environment())


def command(
    arguments: Sequence[Any],
    check: bool = True,
    timeout: float = TIMEOUT_S,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs one program to its end; `check` raises ChainError on failure."""
    arguments = [str(argument) for argument in arguments]
    # What is given is a test's own, and may be anything.
    server = server_of(arguments[0]) if env is None else None
    env = env or environment()
    if server and server.can_run(env):
        done = server.run(arguments, timeout, env)
    else:
        done = subprocess.run(
            arguments, capture_output=True, text=True, errors="replace", timeout=timeout, env=env
        )
    if check and done.returncode != 0:
        raise ChainError(arguments, done.returncode, done.stdout + done.stderr)
    return done


def export(
    step_file: pathlib.Path, archive: pathlib.Path, argv: Sequence[str], described: str = ""
) -> None:
    """Writes the archive and what lies beside it. A step that was exported in this session is
    copied: one of this tree's files, or what is the same wherever it is `described` alike."""
    argv = [str(word) for word in argv]
    if not described and step_file.is_relative_to(ROOT):
        described = str(step_file)
    # What flags name by its path may have changed.
    if exports is None or not described or any(os.sep in word for word in argv):
        return export_anew(step_file, archive, argv)
    key = repr((described, archive.name, argv))
    kept = exports / hashlib.sha256(key.encode()).hexdigest()
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=exports) as folder:
            made = pathlib.Path(folder) / "made"
            made.mkdir()
            export_anew(step_file, made / archive.name, argv)
            with contextlib.suppress(OSError):  # another worker was faster
                made.rename(kept)
    shutil.copytree(kept, archive.parent, dirs_exist_ok=True)


def export_anew(step_file: pathlib.Path, archive: pathlib.Path, argv: Sequence[str]) -> None:
    """Runs `python -m fsdp_mlir.export` inside this process: importing PyTorch
    again for each of a hundred models would take longer than the tests."""
    import torch

    if str(PYTHON) not in sys.path:
        sys.path.insert(0, str(PYTHON))
    before = sys.argv, torch.random.get_rng_state()
    arguments = ["fsdp_mlir.export", "-o", str(archive), str(step_file), *argv]
    output = io.StringIO()
    sys.argv = arguments
    code: Any = 0
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            runpy.run_module("fsdp_mlir.export", run_name="__main__", alter_sys=False)
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.argv = before[0]
        torch.random.set_rng_state(before[1])
        torch._dynamo.reset()
    if isinstance(code, str):
        output.write(code)
    if code not in (0, None):
        raise ChainError(arguments, 1, output.getvalue())


def compile_step(
    step: pathlib.Path | str | Callable[[list[str]], Any],
    tmp_path: pathlib.Path,
    argv: Sequence[str] = (),
    pipeline: str = "mesh=2",
    passes: Sequence[str] | None = None,
) -> Compiled:
    """Compiles a step file, or a function with the signature of
    `training_step`, to a plan in `tmp_path`.

    A function with an attribute `described` is the same as any other that is described alike.
    `pipeline` is what stands in `--fsdp-pipeline="..."`; `passes` replaces that
    flag by others (each one an argument of fsdp-opt).
    """
    tmp_path.mkdir(parents=True, exist_ok=True)
    described = getattr(step, "described", "")
    if callable(step):
        key = str(tmp_path / step.__name__)
        _callables[key] = step
        step = tmp_path / "step_file.py"
        step.write_text(
            "from support.chain import _callables\n" f"training_step = _callables[{key!r}]\n"
        )
    step = pathlib.Path(step)
    archive = tmp_path / "step.pt"
    export(step, archive, argv, described)
    return lower(step, archive, tmp_path, argv, pipeline, passes)


def lower(
    step_file: pathlib.Path,
    archive: pathlib.Path,
    tmp_path: pathlib.Path,
    argv: Sequence[str] = (),
    pipeline: str = "mesh=2",
    passes: Sequence[str] | None = None,
) -> Compiled:
    """Compiles an archive that exists already, as `compile_step` does."""
    tmp_path.mkdir(parents=True, exist_ok=True)
    ir, scheduled = tmp_path / "step.mlir", tmp_path / "step.fsdp.mlir"
    plan = tmp_path / "step.plan"
    if passes is None:
        passes = [f"--fsdp-pipeline={pipeline}" if pipeline else "--fsdp-pipeline"]
    command([binary("fsdp-translate"), "--import-torchscript", archive, "-o", ir])
    command([binary("fsdp-opt"), ir, *passes, "-o", scheduled])
    command([binary("fsdp-translate"), "--fsdp-to-plan", scheduled, "-o", plan])

    def beside(suffix: str) -> pathlib.Path | None:
        path = archive.with_suffix(suffix)
        return path if path.exists() else None

    return Compiled(
        step_file=step_file,
        argv=tuple(argv),
        archive=archive,
        weights=archive.with_suffix(".safetensors"),
        data=beside(".data.safetensors"),
        eval_data=beside(".eval.safetensors"),
        ir=ir,
        scheduled=scheduled,
        plan=plan,
    )


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def plan_text(plan: pathlib.Path) -> str:
    """The plan as text."""
    return command([binary("fsdp-translate"), "--plan-to-text", plan]).stdout


def run_arguments(
    compiled: Compiled, steps: int | None = None, program: str = "fsdp-run"
) -> list[str]:
    """The part of fsdp-run's command line that says what to run."""
    arguments = [binary(program), compiled.plan]
    if compiled.weights is not None:
        arguments += ["--weights", compiled.weights]
    if compiled.data is not None:
        arguments += ["--data", compiled.data]
    if steps is not None:
        arguments += ["--steps", steps]
    return [str(argument) for argument in arguments]


def run_plan(
    compiled: Compiled,
    nproc: int,
    threads: bool = True,
    steps: int | None = None,
    extra: Sequence[Any] = (),
    poison: bool = True,
    timeout: float = TIMEOUT_S,
    program: str = "fsdp-run",
) -> Result:
    """Trains with `nproc` ranks, threads of one process or processes, and
    reads back what the run wrote."""
    folder = compiled.plan.parent
    tag = f"{nproc}-{'threads' if threads else 'processes'}"
    metrics, summary, saved = (
        folder / f"run-{tag}.{kind}" for kind in ("metrics.jsonl", "summary.json", "safetensors")
    )
    for path in (metrics, summary, saved):
        path.unlink(missing_ok=True)
    arguments = run_arguments(compiled, steps, program)
    arguments += ["--nproc", nproc, "--metrics", metrics]
    arguments += ["--summary", summary, "--save", saved]
    if threads:
        arguments.append("--threads")
    if poison:
        arguments.append("--poison")
    done = command([*arguments, *extra], timeout=timeout)
    return read_result(metrics, summary, saved, done.stdout + done.stderr)


def read_result(
    metrics: pathlib.Path, summary: pathlib.Path, saved: pathlib.Path, output: str = ""
) -> Result:
    """The files that fsdp-run writes, as values."""
    from safetensors.torch import load_file

    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return Result(rows, json.loads(summary.read_text()), load_file(saved), output)

"""The stages of the way from a step file to trained weights, one function each."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

from ..errors import E, Identified
from ..remark_kinds import CHANGES
from .. import package
from . import programs
from .pipeline import Options
from .cache import Cache, Use, digest, fingerprints, key_of

# What makes fsdp-opt write its decisions into a file.
REMARKS = [f"--remarks-filter=fsdp.*|{CHANGES}", "--remark-format=yaml"]


class StageError(Identified):
    """A stage that failed. `code` is the exit status to end with."""

    def __init__(self, kind: Optional[E], message: str, code: int = 1) -> None:
        super().__init__(kind, message)
        self.code = code


def find_tools() -> dict[str, Path]:
    """The programs by name.

    Raises:
        StageError: one is not there.
    """
    found = {name: path for name in programs.NAMES if (path := programs.find(name))}
    missing = [name for name in programs.NAMES if name not in found]
    if missing:
        named = os.environ.get("FSDP_MLIR_BIN")
        where = f"$FSDP_MLIR_BIN ({named})" if named else f"{programs.folder()} or on PATH"
        raise StageError(
            E.INSTALLATION,
            f"{', '.join(missing)} not found in {where}; build with `tools/dev build`, or set "
            "FSDP_MLIR_BIN to the folder that holds them",
        )
    return found


def failed(stage: str, output: str, code: int) -> StageError:
    """The error of a program that ended with `code`: its own text, which has its identifier."""
    place = f"{stage}: " if stage else ""
    if line := error_line(output):
        # One that is no word of this project, as what a step file says of its own flags, has none.
        kind = None if re.search(r"\[FSDP-E\d+\]", line) else E.PROCESS_ENDED
        return StageError(kind, f"{place}{line}", status(code))
    return StageError(E.PROCESS_ENDED, f"{place}{ended(code)}", status(code))


def error_line(output: str) -> str:
    """The one line of a failed program's output that says why: its first
    error, else an uncaught exception's last line, else its last line, if any."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    # What a program calls its error, before an exception such as ValueError.
    for label in (r"(^|\s)error:", r"error:"):
        for line in lines:
            if re.search(label, line, re.IGNORECASE) and "Traceback" not in line:
                return strip_label(line)
    return strip_label(lines[-1]) if lines else ""


def traceback_of(lines: Sequence[str]) -> str:
    """The traceback of a loader's process that failed, up to the error of the run."""
    begins = [i for i, line in enumerate(lines) if line.startswith("Traceback ")]
    ends = [i for i, line in enumerate(lines) if line.startswith("error: ")]
    if not begins:
        return ""
    return "".join(lines[begins[0] : next((i for i in ends if i > begins[0]), None)])


def strip_label(line: str) -> str:
    """Drops `error: ` from the start of a line, or from behind a program's name there: the driver
    puts its own."""
    for label in ("error: ", "Error: ", "ERROR: "):
        if line.startswith(label):
            return line[len(label) :]
    return re.sub(r"^([^:]+: )error: ", r"\1", line)


def warnings_of(output: str) -> str:
    """The lines that are meant for the user even where all went well."""
    return "".join(
        line + "\n"
        for line in dict.fromkeys(output.splitlines())
        if line.startswith(("warning:", "note:")) or ": warning: " in line
    )


class Runner:
    """Runs programs; with `verbose` their command lines and output are shown,
    with `dry` only the command lines."""

    def __init__(self, verbose: bool = False, dry: bool = False) -> None:
        self.verbose = verbose
        self.dry = dry

    def show(self, command: Sequence[Any], env: Optional[dict[str, str]] = None) -> None:
        if self.verbose or self.dry:
            words = [f"{name}={value}" for name, value in (env or {}).items()]
            words += [shlex.quote(str(word)) for word in command]
            print("$ " + " ".join(words), flush=True)

    def run(
        self, stage: str, command: Sequence[Any], env: Optional[dict[str, str]] = None
    ) -> tuple[str, str]:
        """Runs a program to its end and returns its output and its errors."""
        self.show(command, env)
        done = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
        )
        if self.verbose:
            sys.stdout.write(done.stdout)
            sys.stderr.write(done.stderr)
        if done.returncode != 0:
            raise failed(stage, done.stderr or done.stdout, done.returncode)
        return done.stdout, done.stderr


def ended(code: int) -> str:
    if code < 0:
        return f"ended by signal {signal.Signals(-code).name}"
    return f"ended with status {code} and no message"


def status(code: int) -> int:
    return 128 - code if code < 0 else code


def torch_version() -> str:
    """The version of PyTorch, without importing it, which would take seconds."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        raise StageError(
            E.PACKAGE_MISSING,
            "PyTorch is not installed; run `tools/dev build`, then use .venv/bin/python",
        )


def export(
    runner: Runner,
    cache: Cache,
    step_file: Path,
    argv: Sequence[str],
    ranks: int,
    use: Use,
    flags: Sequence[str] = (),
    needs_length: bool = False,
) -> tuple[str, bool]:
    """Calls `use` with the folder that holds step.pt and the tensors beside it. Gives what the step
    file printed, and whether it was there before. `flags` are the exporter's own; `needs_length`:
    a step without one is not captured."""
    # WORLD_SIZE lets a step file fit its learning rates to the number of steps.
    versions = [torch_version(), sys.version, digest_of_exporter()]
    key = key_of(["export", str(step_file), list(argv), os.getcwd(), ranks, versions, *flags])
    env = {"WORLD_SIZE": str(ranks), "PYTHONPATH": python_path()}
    environment = {**os.environ, **env}
    if (notes := cache.export(key, use, environment)) is not None:
        return notes["said"], True
    made = cache.scratch()
    try:
        sources = made / "sources.json"
        flags = [*flags, *(["--needs-length"] if needs_length else [])]
        arguments = [*flags, "-o", made / "step.pt", step_file, *argv]
        command = [sys.executable, "-m", "fsdp_mlir.driver.record", sources, *arguments]
        said, errors = runner.run("export", command, env)
        if not (made / "step.pt").exists():
            # The step file ended early and well: --help.
            raise StageError(None, said.rstrip(), 0)
        read = json.loads(sources.read_text())
        known = {*read["files"], str(step_file), *named_files(argv)}
        sources.unlink()
        said = "".join(
            line + "\n" for line in said.splitlines() if not line.startswith(f"wrote {made}")
        )
        said += warnings_of(errors)
        large = described_files(made)
        use(made)
        notes = {"said": said, "variables": fingerprints(read["variables"])}
        cache.store_export(key, made, sorted(known | large), notes, large)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return said, False


def described_files(folder: Path) -> set[str]:
    """The data that an export only describes."""
    return {
        file["path"]
        for path in folder.glob("step.*.json")
        for file in json.loads(path.read_text())["files"]
    }


def digest_of_exporter() -> str:
    """The digest of this package, whose files are not in the list of what an export read."""
    sources = sorted(Path(package.FOLDER).rglob("*.py"))
    return key_of([digest(source) for source in sources])


def python_path() -> str:
    folder = os.path.dirname(package.FOLDER)
    return os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))


def named_files(argv: Sequence[str]) -> set[str]:
    """Files and folders that flags name (`--data FILE`, `--data=FILE`)."""
    words = {part for word in argv for part in (word, word.partition("=")[2]) if part}
    return {os.path.abspath(word) for word in words if os.path.exists(word)}


def check_pipeline(tool: Path, options: Options, stage: str) -> None:
    """Has fsdp-opt look at options that the user gave, before there is anything to compile.

    Raises:
        StageError: there is no such option or value; the error begins with `stage`.
    """
    if options.words:
        Runner().run(stage, [tool, "--fsdp-check-options", f"--fsdp-pipeline={options}"])


def convert(
    runner: Runner,
    cache: Cache,
    stage: str,
    tool: Path,
    flags: Sequence[str],
    source: Path,
    target: Path,
    remarks: Optional[Path] = None,
) -> tuple[str, bool]:
    """Runs `TOOL FLAGS source -o target`, or fetches what it made before; gives
    its warnings and whether it was there before. `remarks` is for the compiler's decisions."""
    flags = [*flags, *(REMARKS if remarks else [])]
    # A cluster or a table of kernels that an option names.
    words = " ".join(flags).replace("=", " ").split()
    files = [digest(Path(word)) for word in words if os.path.isfile(word)]
    key = key_of([stage, digest(source), digest(tool), flags, files, torch_version()])

    def make(path: Path) -> str:
        beside = [f"--remarks-output-file={path.with_name('remarks')}"] if remarks else []
        output, errors = runner.run(stage, [tool, *flags, *beside, source, "-o", path])
        return warnings_of(errors + output)

    def copy(folder: Path) -> None:
        for name, wanted in (("result", target), ("remarks", remarks)):
            if wanted is not None:
                # A copy: whoever edits the text must not edit the cache.
                wanted.unlink(missing_ok=True)
                if name == "result" or (folder / name).exists():
                    shutil.copyfile(folder / name, wanted)

    return cache.file(stage, key, make, copy)


def place(source: Path, target: Path) -> None:
    """Makes `source`, which may be large, also appear as `target`.

    Raises:
        StageError: there is no room for a copy, or the folder cannot be written.
    """
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system
        _copy(source, target)


def _copy(source: Path, target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    try:
        shutil.copyfile(source, partial)
        os.replace(partial, target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StageError(
            E.FILE_UNWRITABLE,
            f"{target}: {error.strerror}; make room, or name another folder with --out",
        ) from error


def run(
    runner: Runner,
    command: Sequence[Any],
    consume: Callable[[Callable[[], bool]], None],
) -> None:
    """Trains: starts fsdp-run, hands `consume` a function that says whether it
    still runs, and waits for the end."""
    runner.show(command)
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # Its own group, so that an interrupt reaches it once, from here.
        start_new_session=True,
        # It ends with this process, also where that is killed.
        env={**os.environ, "PYTHONPATH": python_path(), "FSDP_MLIR_STARTER": str(os.getpid())},
    )
    lines: list[str] = []

    def drain() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if runner.verbose:
                sys.stderr.write(line)
            elif warnings_of(line):
                sys.stderr.write(line)

    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    try:
        consume(lambda: process.poll() is None)
        code = process.wait()
    except BaseException:
        stop(process)
        raise
    reader.join(timeout=5)
    if code != 0:
        if not runner.verbose:
            sys.stderr.write(traceback_of(lines))
        raise failed("run", "".join(lines), code)


def stop(process: "subprocess.Popen[str]") -> None:
    """Asks fsdp-run to end, which it does when its step and its checkpoint are over, and waits
    until it and its ranks are gone. Whoever asks a second time does not wait."""
    try:
        process.terminate()
        process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

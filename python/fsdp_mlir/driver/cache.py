"""Results of earlier stages, kept for as long as what they came from is the same.

An export is kept by the step file and its flags, and is good while every file and every variable
of the environment that it read is unchanged (`record.py` lists them). The later stages turn one
file into another, so theirs is kept by the contents of that file, of the
program and by its options.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable, Container, Iterable, Iterator, Mapping, Optional

# Is called with the folder of an entry, which stays as it is for as long as the call takes.
Use = Callable[[Path], None]

# Exports hold weights and data: only so many stay.
KEPT_EXPORTS = 8
KEPT_FILES = 64


def default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "fsdp-mlir"


def digest(path: Path) -> str:
    """SHA-256 of a file's contents, or of a folder's names, sizes and times."""
    state = hashlib.sha256()
    if path.is_dir():
        for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
            stat = entry.stat()
            line = f"{entry.name}\0{stat.st_size}\0{stat.st_mtime_ns}\n"
            # A folder's own size and time change when Python compiles a module.
            state.update((entry.name + "\n" if entry.is_dir() else line).encode())
    else:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                state.update(block)
    return state.hexdigest()


def key_of(parts: Any) -> str:
    """A name for whatever JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def fingerprint(path: Path, large: bool = False) -> dict[str, Any]:
    """What `unchanged` compares; raises OSError where there is no such file. A `large` one is not
    read: another time is a change."""
    stat = path.stat()
    return {
        "path": str(path),
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "sha256": "" if large else digest(path),
    }


def unchanged(known: dict[str, Any]) -> bool:
    path = Path(known["path"])
    try:
        stat = path.stat()
        # Large data is not read again while nothing touched it.
        if not path.is_dir():
            if stat.st_size != known["size"]:
                return False
            if stat.st_mtime_ns == known["mtime_ns"]:
                return True
        return known["sha256"] != "" and digest(path) == known["sha256"]
    except OSError:
        return False


def fingerprints(variables: Mapping[str, Optional[str]]) -> dict[str, str]:
    """A fingerprint of each variable's value by name: values may be secrets."""
    return {name: key_of(value) for name, value in variables.items()}


class Cache:
    """Stage results below one folder, which several processes may share; `enabled=False` looks
    nothing up but still stores, so that a later run finds fresh results."""

    def __init__(self, folder: Path, enabled: bool = True) -> None:
        self.folder = folder
        self.enabled = enabled

    def export(
        self, key: str, use: Use, environment: Mapping[str, str]
    ) -> Optional[dict[str, Any]]:
        """The notes of a stored export that is still good in `environment`, after `use`; or None,
        without it."""
        path = self.folder / "export" / key
        try:
            text = (path / "notes.json").read_text()
            notes: dict[str, Any] = json.loads(text)
            files, variables = notes["files"], notes["variables"]
            now = fingerprints({name: environment.get(name) for name in variables})
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if not self.enabled or now != variables or not all(map(unchanged, files)):
            return None
        with self._alone():
            # Another process may have stored another one while the files were read.
            if not _is_text(path / "notes.json", text):
                return None
            os.utime(path)
            use(path)
        return notes

    def store_export(
        self,
        key: str,
        made: Path,
        files: Iterable[str],
        notes: dict,
        large: Container[str] = (),
    ) -> None:
        """Moves the folder `made` into the cache; `notes` have `variables`. `files` are what it came from, of which those in
        `large` are not read again; one that vanished meanwhile makes the entry good for nothing,
        and it is then not found again."""
        known = []
        for file in files:
            try:
                known.append(fingerprint(Path(file), file in large))
            except OSError:
                known.append({"path": file, "size": -1, "mtime_ns": -1, "sha256": ""})
        (made / "notes.json").write_text(json.dumps({**notes, "files": known}))
        self._store(made, "export", key, KEPT_EXPORTS)

    def kernel_table(self, machine: Any) -> Path:
        """Where measured kernels of a machine are kept, which grow with each plan; with
        `enabled=False` there are none yet."""
        path = self.folder / "kernels" / f"{key_of(machine)}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not self.enabled:
            path.unlink(missing_ok=True)
        return path.resolve()

    def scratch(self) -> Path:
        """A new folder on the cache's own file system, to be moved or removed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="making-", dir=self.folder))

    def file(self, stage: str, key: str, make: Callable[[Path], str], use: Use) -> tuple[str, bool]:
        """Calls `use` with the folder that holds the result of a stage, as "result", made by
        `make(path)` where it is not stored. Gives what `make` had to say, then or earlier; and
        whether it was stored."""
        path = self.folder / stage / key
        with self._alone():
            if self.enabled and (path / "result").is_file():
                os.utime(path)
                use(path)
                return (path / "said").read_text(), True
        scratch = self.scratch()
        try:
            said = make(scratch / "result")
            (scratch / "said").write_text(said)
            use(scratch)
            self._store(scratch, stage, key, KEPT_FILES)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return said, False

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Within it, no other process takes, stores or removes an entry."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _store(self, made: Path, stage: str, key: str, kept: int) -> None:
        """Moves a folder to where it is found, and removes the entries of its stage that were used
        longest ago."""
        path = self.folder / stage / key
        with self._alone():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(path, ignore_errors=True)
            os.replace(made, path)
            entries = sorted(path.parent.iterdir(), key=lambda entry: entry.stat().st_mtime)
            for entry in entries[:-kept]:
                shutil.rmtree(entry, ignore_errors=True)


def _is_text(path: Path, text: str) -> bool:
    try:
        return path.read_text() == text
    except OSError:
        return False

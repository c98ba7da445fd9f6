"""Records what a step file reads, so that a cache knows when its export is out of date."""

from __future__ import annotations

import contextlib
import os
import site
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, Sequence

from .. import package


@dataclass
class StepSources:
    """What was read while it was recorded.

    Attributes:
        files: files opened for reading, the step file among them.
        modules: files of the local modules that were imported.
    """

    files: set[Path] = field(default_factory=set)
    modules: set[Path] = field(default_factory=set)


_active: list[StepSources] = []
_installed = False


@contextlib.contextmanager
def record_sources(argv: Sequence[str] = ()) -> Iterator[StepSources]:
    """Records the files that Python opens and the local modules it imports in the `with` block.

    Files that belong to Python or to installed packages are left out. Libraries that open files
    without Python (a Rust or C++ reader) are not seen; files and folders named in `argv`, the step
    file's own flags, are therefore counted as read. The sets are complete when the block ends.
    """
    _install()
    sources = StepSources()
    before = set(sys.modules)
    _active.append(sources)
    try:
        yield sources
    finally:
        _active.remove(sources)
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and _is_local(file):
                sources.modules.add(Path(file).resolve())
        for word in argv:
            for part in {word, word.partition("=")[2]} - {""}:
                path = Path(part)
                if path.is_file():
                    sources.files.add(path.resolve())
                elif path.is_dir():
                    sources.files.update(p.resolve() for p in path.iterdir() if p.is_file())
        sources.files = {path for path in sources.files if path.is_file()}


def _install() -> None:
    """Audit hooks cannot be removed, so one is added for all."""
    global _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or not _active:
        return
    path, mode, flags = arguments
    if not isinstance(path, (str, bytes, os.PathLike)):
        return
    if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return
    name = os.fsdecode(path)
    if _is_local(name):
        _active[-1].files.add(Path(os.path.abspath(name)))


def _installed_folders() -> tuple[str, ...]:
    folders = {*site.getsitepackages(), site.getusersitepackages()}
    folders.update(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib"))
    folders.add(package.FOLDER)
    return tuple(os.path.realpath(folder) + os.sep for folder in folders)


_FOLDERS = _installed_folders()


def _is_local(name: str) -> bool:
    path = os.path.realpath(name)
    if path.startswith(("/proc/", "/sys/", "/dev/", *_FOLDERS)):
        return False
    return "__pycache__" not in path

"""Records what a step file reads, so that a cache knows when its export is out of date."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Iterator, Optional, Sequence

from ..package import file_of, is_local


@dataclass
class StepSources:
    """What was read while it was recorded.

    Attributes:
        files: files opened for reading, the step file among them.
        modules: files of the local modules that were imported.
        variables: what local code asked of the environment, as it was when recording began; None
            for a variable that was not set.
    """

    files: set[Path] = field(default_factory=set)
    modules: set[Path] = field(default_factory=set)
    variables: dict[str, Optional[str]] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))


_active: list[StepSources] = []
_installed = False


@contextlib.contextmanager
def record_sources(argv: Sequence[str] = ()) -> Iterator[StepSources]:
    """Records the files that Python opens, the local modules it imports and the variables of the
    environment that these read in the `with` block.

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
            file = file_of(sys.modules[name])
            if file and is_local(file):
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
    """Audit hooks cannot be removed, so one is added for all; the environment is watched with it."""
    global _installed
    if not _installed:
        sys.addaudithook(_hook)
        os._Environ.__getitem__ = _watched(os._Environ.__getitem__)
        _installed = True


def _watched(read: Any) -> Any:
    """`os.environ[name]`, by which `get`, `getenv`, `in` and `setdefault` read too."""

    @functools.wraps(read)
    def watched(environment: Any, name: Any) -> str:
        if _active and isinstance(name, str) and _is_local_code(sys._getframe(1)):
            sources = _active[-1]
            sources.variables[name] = sources.environment.get(name)
        return read(environment, name)

    return watched


def _is_local_code(frame: Optional[FrameType]) -> bool:
    """Whether the first caller that is a file is neither Python's own nor the environment's."""
    while frame is not None and frame.f_code.co_filename.startswith("<"):
        frame = frame.f_back
    return frame is not None and is_local(frame.f_code.co_filename)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or not _active:
        return
    path, mode, flags = arguments
    if not isinstance(path, (str, bytes, os.PathLike)):
        return
    if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return
    name = os.fsdecode(path)
    if is_local(name):
        _active[-1].files.add(Path(os.path.abspath(name)))

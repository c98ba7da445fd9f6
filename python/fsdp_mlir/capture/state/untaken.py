"""Runs code that a step does not come to now: nothing that it does beside computing is to last."""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import io
import logging
import os
import pathlib
import sys
import warnings
from typing import Any, Callable, Iterator
from unittest import mock

import torch

from ...step.places import innermost, is_users, said_line

_refuses = False
# Python's own names of what changes files, or goes to other processes and machines.
_LASTING = (
    *("os.chmod os.chown os.link os.mkdir os.remove os.rename os.rmdir os.symlink".split()),
    *("os.truncate os.utime os.putenv os.system os.exec os.fork os.forkpty os.kill".split()),
    *("os.posix_spawn os.startfile pty.spawn shutil. subprocess. socket.connect".split()),
)
# What code calls to save something, which gives nothing back.
_SAVING = (
    (torch, "save"),
    (os, "makedirs"),
    (os, "mkdir"),
    (os, "remove"),
    (os, "rename"),
    (os, "replace"),
    (pathlib.Path, "mkdir"),
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class WouldLast(OSError):
    """Code would change a file, or reach another process."""


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _refuses:
        return
    writes = event == "open" and isinstance(args[2], int) and args[2] & _WRITING
    if writes or event.startswith(_LASTING):
        _refuse(event)


def _refuse(what: Any, *args: Any, **kwargs: Any) -> None:
    raise WouldLast(f"{what} while the step is only tried")


@functools.cache
def _add_hook() -> None:
    sys.addaudithook(_audit)  # which Python can not take away again


@contextlib.contextmanager
def untaken() -> Iterator[dict[str, None]]:
    """Within it, code saves nothing: a file that it opens to write is memory. Code that would change a
    file in another way, or reach another process, raises WouldLast. Gives the user's lines that would
    have saved something, as `file.py:31`."""
    global _refuses
    # Which PyTorch imports while it differentiates, and which makes a folder then.
    importlib.import_module("torch._inductor.compiler_bisector")
    lines: dict[str, None] = {}
    _add_hook()
    _refuses = True
    try:
        with contextlib.ExitStack() as stack:
            # It opens files without Python.
            stack.enter_context(mock.patch.object(torch._C, "PyTorchFileWriter", _refuse))
            for owner, name in _SAVING:
                nothing = functools.partial(_note_line, lines)
                stack.enter_context(mock.patch.object(owner, name, nothing))
            for module in (builtins, io):
                opening = _in_memory(module.open, lines)
                stack.enter_context(mock.patch.object(module, "open", opening))
            yield lines
    finally:
        _refuses = False


def _note_line(lines: dict[str, None], *args: Any, **kwargs: Any) -> None:
    frame = innermost(sys._getframe(1), is_users)
    if frame is not None:
        lines[said_line(frame)] = None


def _in_memory(original: Callable[..., Any], lines: dict[str, None]) -> Callable[..., Any]:
    """An `open` that gives memory in the place of a file to write."""

    @functools.wraps(original)
    def opening(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if not set(mode) & set("wax+"):
            return original(file, mode, *args, **kwargs)
        _note_line(lines)
        return io.BytesIO() if "b" in mode else io.StringIO()

    return opening


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Within it, code prints, logs and warns of nothing."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

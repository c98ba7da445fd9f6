"""Runs code that a step does not come to now: nothing that it does beside computing is to last."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import sys
import warnings
from typing import Any, Iterator
from unittest import mock

import torch

_refuses = False
# Python's own names of what changes files, or goes to other processes and machines.
_LASTING = (
    *("os.chmod os.chown os.link os.mkdir os.remove os.rename os.rmdir os.symlink".split()),
    *("os.truncate os.utime os.putenv os.system os.exec os.fork os.forkpty os.kill".split()),
    *("os.posix_spawn os.startfile pty.spawn shutil. subprocess. socket.connect".split()),
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _refuses:
        return
    writes = event == "open" and isinstance(args[2], int) and args[2] & _WRITING
    if writes or event.startswith(_LASTING):
        _refuse(event)


def _refuse(what: Any, *args: Any, **kwargs: Any) -> None:
    raise OSError(f"{what} while the step is only tried")


@functools.cache
def _add_hook() -> None:
    sys.addaudithook(_audit)  # which Python can not take away again


@contextlib.contextmanager
def untaken() -> Iterator[None]:
    """Within it, code that would change a file, or reach another process, raises OSError."""
    global _refuses
    _add_hook()
    _refuses = True
    try:
        # It opens files without Python.
        with mock.patch.object(torch._C, "PyTorchFileWriter", _refuse):
            yield
    finally:
        _refuses = False


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

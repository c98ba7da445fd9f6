"""Paths on the command line that cannot be what they are for: said before a stage runs."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
from pathlib import Path
from typing import Iterator

from ..errors import E
from .stages import StageError


def check_paths(args: argparse.Namespace) -> None:
    """Looks at the files that a run reads and writes. OUT is there already.

    Raises:
        StageError: there is no such file, or none can be written there.
    """
    if args.weights and not args.weights.exists():
        raise StageError(E.FILE_UNREADABLE, f"--weights {args.weights}: no such file or folder")
    for name in ("metrics", "save", "trace", "eval_outputs"):
        path = getattr(args, name)
        if path is None:
            continue
        flag = f"--{name.replace('_', '-')} {path}"
        if path.is_dir():
            raise StageError(E.FILE_UNWRITABLE, f"{flag} is a folder; name a file")
        if not path.parent.is_dir():
            raise StageError(
                E.FILE_UNWRITABLE, f"{flag}: there is no folder {path.parent} to write it into"
            )
    make_folder("--cache-dir", args.cache_dir)


def make_folder(flag: str, path: Path) -> None:
    """Makes a folder where there is none.

    Raises:
        StageError: it cannot be made; the error names `flag`.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise StageError(E.FILE_UNWRITABLE, f"{flag} {path} is a file; give a folder") from None
    except OSError as error:
        raise StageError(
            E.FILE_UNWRITABLE,
            f"{flag} {path}: {error.strerror}; give a folder that can be written",
        ) from error


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """While no other run is within this function for the same folder.

    Raises:
        StageError: another one is.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StageError(
                E.FILE_UNWRITABLE,
                f"--out {folder}: another run writes into it; wait for its end, or name another "
                "folder",
            ) from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)

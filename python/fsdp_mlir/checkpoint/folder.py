"""Folders of checkpoints: which there are, and how a new one gets in whole or not at all.

Names, lock and rename are the runtime's (runtime/state/CheckpointFolder.cpp).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import socket
from pathlib import Path
from typing import Any, Iterator, Optional

from ..untrusted import open_regular, parse_json
from .errors import E, CheckpointError

MANIFEST = "checkpoint.json"
# Names of checkpoints have 18 digits at most.
MOST_STEPS = 10**18 - 1


def step_name(step: int) -> str:
    return f"step-{step:08d}"


def shard_name(file: int) -> str:
    return f"rank-{file:05d}.safetensors"


def loader_name(rank: int) -> str:
    return f"rank-{rank:05d}.loader"


def find_checkpoint(path: Path) -> Path:
    """The checkpoint that `path` is, or the newest one of those that it holds."""
    if (path / MANIFEST).exists():
        return path
    if not path.is_dir():
        what = "is not a folder" if path.exists() else "is not there"
        raise CheckpointError(
            E.CHECKPOINT_MISSING,
            f"{path} {what}; name the folder of a checkpoint, or that of a run's checkpoints",
        )
    if path.name.startswith("step-"):
        raise CheckpointError(
            E.CHECKPOINT_MISSING, f"{path} has no {MANIFEST}; take the checkpoint before it"
        )
    newest = newest_in(path)
    if newest is None:
        below = path / "checkpoints"  # of what a run leaves
        is_there = below.is_dir() and newest_in(below) is not None
        other = below if is_there else "the folder of one, or that of a run's checkpoints"
        raise CheckpointError(
            E.CHECKPOINT_MISSING, f"there is no checkpoint in {path}; name {other}"
        )
    return newest


def newest_in(folder: Path) -> Optional[Path]:
    """The checkpoint of the last step in a folder; None: there is none."""
    steps = [
        entry
        for entry in folder.iterdir()
        if re.fullmatch(r"step-[0-9]{8,18}", entry.name) and entry.is_dir()
    ]
    return max(steps, key=lambda entry: int(entry.name.removeprefix("step-")), default=None)


def run_of(checkpoint: Path) -> dict[str, Any]:
    """Where its run was, as its manifest says, which nobody has checked: for display. Empty where
    that cannot be read."""
    try:
        with open_regular(checkpoint / MANIFEST) as file:
            run = parse_json(file.read())["run"]
        is_whole = all(isinstance(run[n], int) for n in ("step", "epoch", "samples_in_epoch"))
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return run if is_whole else {}


def sync(path: Path) -> None:
    """Brings the names in a folder to the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A name to write a file or folder under, which then becomes `path` at once. Nothing is left of
    it where that fails, and what an earlier process left when it was killed is removed.

    It is in the folder `path`.partial, which is locked: another process that is to write `path` too
    is refused.

    Raises:
        CheckpointError: there is something at `path` already, or another process writes it.
    """
    _refuse_another(path)
    parent = path.absolute().parent
    with _made(parent), _own_folder(path.with_name(f"{path.name}.partial"), path) as holder:
        _refuse_another(path)  # which another process has written meanwhile
        partial = holder / path.name
        yield partial
        if partial.is_dir():
            sync(partial)
        os.rename(partial, path)
        sync(parent)


def _refuse_another(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise CheckpointError(
            E.CHECKPOINT_FOLDER, f"{path} is there already; remove it, or name another -o"
        )


@contextlib.contextmanager
def _own_folder(folder: Path, target: Path) -> Iterator[Path]:
    """A new folder of this process alone, which is removed at the end."""
    with contextlib.ExitStack() as stack:
        while True:
            if folder.is_symlink() or not folder.is_dir():
                folder.unlink(missing_ok=True)
                folder.mkdir(exist_ok=True)
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CheckpointError(
                    E.CHECKPOINT_FOLDER,
                    f"another process writes {target}; wait for its end, or name another -o",
                ) from None
            # Unless whoever had it has removed it meanwhile.
            if folder.exists() and os.path.samestat(os.fstat(handle), os.stat(folder)):
                break
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for entry in folder.iterdir():
            _remove(entry)
        yield folder


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Makes a folder. Where what follows fails, those that were not there are removed again, as far
    as they are empty."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for each in missing:
                each.rmdir()
        raise


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Keeps runs from writing into a folder of checkpoints. A lock that was not there before is
    removed where what follows fails."""
    path = root / "lock"
    is_new = not path.exists()
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o666), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = lock.read(256)
            raise CheckpointError(
                E.CHECKPOINT_FOLDER,
                f"a run writes its checkpoints into {root}{f' ({who})' if who else ''}; wait for "
                "its end, or name another folder",
            ) from None
        try:
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()}")
            lock.flush()
            yield
        except BaseException:
            if is_new:
                path.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def new_checkpoint(root: Path, step: int) -> Iterator[Path]:
    """A folder to write the checkpoint of a step into. At the end it is one of those in `root`,
    which no run may write into meanwhile."""
    if (root / MANIFEST).exists():
        raise CheckpointError(
            E.CHECKPOINT_FOLDER, f"{root} is a checkpoint; name a folder for checkpoints with -o"
        )
    with _made(root.absolute()), _locked(root), unfinished(root / step_name(step)) as partial:
        partial.mkdir()
        yield partial

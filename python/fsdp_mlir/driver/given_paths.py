"""Paths on the command line that cannot be what they are for: said before a stage runs."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
from pathlib import Path
from typing import Iterator, Optional

from ..errors import E
from .stages import StageError, named_files


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
    for flag, folder in (
        ("--checkpoint-dir", args.checkpoint_dir),
        ("--tensorboard", args.tensorboard),
    ):
        if isinstance(folder, Path) and folder.exists() and not folder.is_dir():
            raise StageError(E.FILE_UNWRITABLE, f"{flag} {folder} is a file; give a folder")
    check_written(args)
    make_folder("--cache-dir", args.cache_dir)


def check_written(args: argparse.Namespace) -> None:
    """Looks whether a flag names for writing what the run reads, or what another flag does: metrics
    of an earlier run are removed before `fsdp-run` looks. Weights may be saved where they were read.

    Raises:
        StageError: one does.
    """
    read = {"the step file": args.step_file, "--weights": args.weights}
    read |= {f"{word} of the step file's flags": Path(word) for word in named_files(args.argv)}
    written = {
        f"--{name.replace('_', '-')}": path
        for name in ("metrics", "save", "trace", "eval_outputs")
        if (path := getattr(args, name)) is not None
    }
    for flag, path in written.items():
        for other, given in read.items():
            may = (flag, other) == ("--save", "--weights")
            if given is not None and not may and _is_one_file(path, given):
                raise StageError(
                    E.FLAGS_DISAGREE, f"{flag} {path} would write over {other}; name another file"
                )
        for other, given in written.items():
            if other != flag and _is_one_file(path, given):
                raise StageError(
                    E.FLAGS_DISAGREE, f"{flag} and {other} both write {path}; name another file"
                )
    metrics = os.path.abspath(args.metrics)
    is_special = args.metrics.exists() and not args.metrics.is_file()
    if is_special or metrics.startswith(("/dev/", "/proc/")):
        raise StageError(
            E.FILE_UNWRITABLE,
            f"--metrics {args.metrics} is no regular file, and what is shown of a run is read from "
            "it; name a file",
        )


def note_of_saved(path: Path) -> Optional[str]:
    """A note on weights that are saved under a name of torch.save's; None: there is nothing to note."""
    if path.suffix not in (".pt", ".pth", ".bin", ".ckpt"):
        return None
    return (
        f"{path} becomes a safetensors file, which torch.load does not read; name it "
        f"{path.with_suffix('.safetensors').name}, and load it by safetensors.torch.load_file"
    )


def _is_one_file(one: Path, other: Path) -> bool:
    """Whether two paths are one file, which need not be there yet; devices are nobody's."""
    if one.exists() and not one.is_file():
        return False
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


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

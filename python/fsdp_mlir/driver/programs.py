"""Where the compiled programs are; and they themselves as commands of an installed package."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn, Optional

from .. import package
from ..errors import E, identified

NAMES = ("fsdp-translate", "fsdp-opt", "fsdp-run")

_PACKAGE = Path(package.FOLDER).resolve()


def folder() -> Path:
    """$FSDP_MLIR_BIN; else the package's own folder, where it is installed; else build/bin of the
    tree that the package is in."""
    named = os.environ.get("FSDP_MLIR_BIN")
    if named:
        return Path(named)
    installed = _PACKAGE / "bin"
    return installed if installed.is_dir() else _PACKAGE.parents[1] / "build" / "bin"


def find(name: str) -> Optional[Path]:
    """A program of `folder()`, or of PATH where no folder is named; None: there is none."""
    path = folder() / name
    if os.access(path, os.X_OK):
        return path
    if os.environ.get("FSDP_MLIR_BIN"):
        return None
    other = shutil.which(name)
    return Path(other) if other else None


def _become(name: str) -> NoReturn:
    path = folder() / name
    if not os.access(path, os.X_OK):
        text = f"{name} is not in {folder()}; install the package again"
        sys.exit(f"error: {identified(E.INSTALLATION, text)}")
    os.execv(path, [name, *sys.argv[1:]])


def fsdp_opt() -> NoReturn:
    _become("fsdp-opt")


def fsdp_translate() -> NoReturn:
    _become("fsdp-translate")


def fsdp_run() -> NoReturn:
    _become("fsdp-run")

"""Where this package is, and which files are a user's own."""

from __future__ import annotations

import functools
import importlib.util
import os
import site
import sysconfig
from typing import Any, Optional

# As tracebacks name its files: links are not followed.
FOLDER = os.path.dirname(os.path.abspath(__file__))


def _installed_folders() -> tuple[str, ...]:
    folders = {*site.getsitepackages(), site.getusersitepackages(), FOLDER}
    folders.update(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib"))
    if (torch := importlib.util.find_spec("torch")) is not None:  # wherever it was built or put
        folders.update(torch.submodule_search_locations or ())
    return tuple(os.path.realpath(folder) + os.sep for folder in folders)


_FOLDERS = _installed_folders()


def file_of(module: Any) -> Optional[str]:
    """The file that a loaded module is from; None of one that is loaded when code first reads from it,
    which this does not do."""
    return getattr(module, "__dict__", {}).get("__file__")


def is_local(name: str) -> bool:
    """Whether a file belongs to a user, and neither to Python, to an installed package nor to this
    one; `<string>` and the like, which are no files, do not."""
    if name.startswith("<"):
        return False
    return _is_local(name if os.path.isabs(name) else os.path.join(os.getcwd(), name))


@functools.lru_cache(maxsize=1 << 14)  # a capture asks for each module again and again
def _is_local(name: str) -> bool:
    path = os.path.realpath(name)
    if path.startswith(("/proc/", "/sys/", "/dev/", *_FOLDERS)) or is_in_packages(path):
        return False
    return "__pycache__" not in path.split(os.sep)


def is_in_packages(path: str) -> bool:
    """Whether a file is in a folder that packages are installed into, in whatever environment: one may
    see those of another."""
    return not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))

"""What pip calls to build the package: scikit-build-core, with PyTorch where it is needed, and with
headers of CUDA that PyTorch does not bring.

The programs are compiled against the PyTorch that they will run with. Where the environment that
pip installs into has the right one, that is taken, and no other is fetched for the build.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

from scikit_build_core import build as _build
from scikit_build_core.build import (  # noqa: F401  # pip's hooks
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

_TREE = Path(__file__).parents[1]
# Isolated from what pip has set up for the build: what the environment itself has.
_ASK = "import importlib.metadata as m; print(m.version('torch'))"


def _wanted() -> str:
    """PyTorch and its version, from the package's dependencies."""
    found = re.search(r'"(torch==[^"]+)"', (_TREE / "pyproject.toml").read_text())
    assert found, "pyproject.toml does not pin torch"
    return found[1]


def _environment_has(requirement: str) -> bool:
    asked = subprocess.run([sys.executable, "-I", "-c", _ASK], capture_output=True, text=True)
    return asked.stdout.strip().partition("+")[0] == requirement.partition("==")[2]


def _cuda_headers() -> list[str]:
    """The packages, from what the project is built with."""
    lines = (_TREE / "requirements.txt").read_text().splitlines()
    return [line for line in lines if line.startswith(("nvidia-cuda-crt==", "nvidia-cuda-cccl=="))]


def _cuda_folder() -> str:
    """Where pip has put them."""
    folders = (Path(entry) / "nvidia" / "cu13" for entry in sys.path)
    return next((str(folder) for folder in folders if (folder / "include" / "nv").exists()), "")


def get_requires_for_build_wheel(config_settings: Optional[dict[str, Any]] = None) -> list[str]:
    requires = [*_build.get_requires_for_build_wheel(config_settings), *_cuda_headers()]
    wanted = _wanted()
    return requires if _environment_has(wanted) else [*requires, wanted]


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[dict[str, Any]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    # CMake asks this Python for PyTorch, in the way that finds the one chosen above.
    python = f"{sys.executable};-I" if _environment_has(_wanted()) else sys.executable
    arguments = [f"'-DFSDP_PYTHON={python}'", f"'-DFSDP_CUDA_HEADERS={_cuda_folder()}'"]
    os.environ["CMAKE_ARGS"] = " ".join([os.environ.get("CMAKE_ARGS", ""), *arguments]).strip()
    return _build.build_wheel(wheel_directory, config_settings, metadata_directory)

"""The extension module that runs plans in this process, built beside the programs."""

from __future__ import annotations

import functools
import importlib.util
import os
import sysconfig
from pathlib import Path
from types import ModuleType

from .errors import RunError

NAME = "fsdp_runtime"


def folder() -> Path:
    """Where the programs are, by $FSDP_MLIR_BIN or in build/bin."""
    named = os.environ.get("FSDP_MLIR_BIN")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "build" / "bin"


@functools.cache
def runtime() -> ModuleType:
    """The module, loaded once a process.

    Raises:
        RunError: it is not built, or for another Python or PyTorch.
    """
    import torch  # first: the module uses the libraries that it has loaded

    path = folder() / (NAME + sysconfig.get_config_var("EXT_SUFFIX"))
    if not path.is_file():
        others = sorted(found.name for found in folder().glob(f"{NAME}.*"))
        what = f"has {others[0]}, built for another Python" if others else "has none"
        raise RunError(
            f"a loop of one's own needs {path.name}, and {folder()} {what}; build with `tools/dev "
            "build`, or set FSDP_MLIR_BIN to the folder that holds it"
        )
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec is not None and spec.loader is not None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise RunError(
            f"{path} does not load ({str(error).splitlines()[0]}); build it again with this "
            f"Python's PyTorch, {torch.__version__}"
        ) from error
    if module.torch_version != torch.__version__.partition("+")[0]:
        raise RunError(
            f"{path} was built with PyTorch {module.torch_version}, and this is "
            f"{torch.__version__}; build it again"
        )
    return module

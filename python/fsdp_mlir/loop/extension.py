"""The extension module that runs plans in this process, built beside the programs."""

from __future__ import annotations

import functools
import importlib.util
import sysconfig
from types import ModuleType

from ..driver import programs
from ..errors import E, RunError

NAME = "fsdp_runtime"


@functools.cache
def runtime() -> ModuleType:
    """The module, loaded once a process.

    Raises:
        RunError: it is not built, or for another Python or PyTorch.
    """
    import torch  # first: the module uses the libraries that it has loaded

    path = programs.folder() / (NAME + sysconfig.get_config_var("EXT_SUFFIX"))
    if not path.is_file():
        others = sorted(found.name for found in programs.folder().glob(f"{NAME}.*"))
        what = f"has {others[0]}, built for another Python" if others else "has none"
        raise RunError(
            E.INSTALLATION,
            f"a loop of one's own needs {path.name}, and {programs.folder()} {what}; build with `tools/dev "
            "build`, or set FSDP_MLIR_BIN to the folder that holds it",
        )
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec is not None and spec.loader is not None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise RunError(
            E.INSTALLATION,
            f"{path} does not load ({str(error).splitlines()[0]}); build it again with this "
            f"Python's PyTorch, {torch.__version__}",
        ) from error
    if module.torch_version != torch.__version__.partition("+")[0]:
        raise RunError(
            E.INSTALLATION,
            f"{path} was built with PyTorch {module.torch_version}, and this is "
            f"{torch.__version__}; build it again",
        )
    return module

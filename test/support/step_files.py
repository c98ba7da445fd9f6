"""Step files that several folders of tests share."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from types import ModuleType

TESTS = pathlib.Path(__file__).resolve().parents[1]

# Models that are compared with PyTorch, and models of every kind.
PARITY = TESTS / "numerics" / "parity" / "models"
GENERALITY = TESTS / "numerics" / "generality" / "models"

# Small models with every option of a step, by `--model`.
SMALL = TESTS / "compiler" / "options" / "step.py"


def loaded(path: pathlib.Path) -> ModuleType:
    """The module of a file, made anew."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

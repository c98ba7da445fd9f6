"""Fixtures of the checkpoint tests: a step, its plans, and the run to which nothing happens."""

from __future__ import annotations

import pathlib
from typing import Callable

import pytest

from training.checkpoint.runs import Runs
from support import chain
from support.compilations import Compilations

STEP = pathlib.Path(__file__).parent / "step.py"


@pytest.fixture(scope="session")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., chain.Compiled]:
    """The step compiled with a pipeline's options, and its own flags; each once."""
    return Compilations(STEP, tmp_path_factory.mktemp)


@pytest.fixture
def runs(lowered: Callable[[str], chain.Compiled], tmp_path: pathlib.Path) -> Runs:
    """Two ranks as processes."""
    return Runs(lowered("mesh=2"), 2, tmp_path)

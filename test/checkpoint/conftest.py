"""Fixtures of the checkpoint tests: a step, its plans, and the run to which nothing happens."""

from __future__ import annotations

import pathlib
from typing import Callable

import pytest

from checkpoint.runs import Runs
from support import chain

STEP = pathlib.Path(__file__).parent / "step.py"


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("archive") / "step.pt"
    chain.export(STEP, path, [])
    return path


@pytest.fixture(scope="session")
def lowered(
    archive: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], chain.Compiled]:
    """The step compiled with a pipeline's options; each once."""
    plans: dict[str, chain.Compiled] = {}

    def lower(pipeline: str) -> chain.Compiled:
        if pipeline not in plans:
            folder = tmp_path_factory.mktemp("plan")
            plans[pipeline] = chain.lower(STEP, archive, folder, (), pipeline)
        return plans[pipeline]

    return lower


@pytest.fixture
def runs(lowered: Callable[[str], chain.Compiled], tmp_path: pathlib.Path) -> Runs:
    """Two ranks as processes."""
    return Runs(lowered("mesh=2"), 2, tmp_path)

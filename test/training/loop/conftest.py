"""Plans of the small step, and ranks that stay up."""

from __future__ import annotations

import pathlib
from typing import Callable, Iterator

import pytest

from support import chain
from support.compilations import Compilations

from .ranks import Ranks

STEP = pathlib.Path(__file__).parent / "step.py"

Compile = Callable[..., chain.Compiled]


@pytest.fixture(scope="session")
def compile_step(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compiles the step by its flags and the pipeline's options, each once."""
    return Compilations(STEP, tmp_path_factory.mktemp)


@pytest.fixture(scope="session")
def compile_turns(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Likewise the step of several losses."""
    return Compilations(STEP.parent / "turns_step.py", tmp_path_factory.mktemp)


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """Two processes that take calls one after the other."""
    ranks = Ranks(tmp_path_factory.mktemp("ranks"))
    yield ranks
    ranks.close()

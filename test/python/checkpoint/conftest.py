"""A small run with checkpoints, made once, and the helpers of these tests."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from small_run import Single, SmallRun  # noqa: E402


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    """Twelve steps on two ranks, with a checkpoint every five steps."""
    return SmallRun(tmp_path_factory.mktemp("small-run"))


@pytest.fixture(scope="session")
def single(run: SmallRun, tmp_path_factory: pytest.TempPathFactory) -> Single:
    """Twenty steps of the same on one rank, with a checkpoint in their middle."""
    return Single(run, tmp_path_factory.mktemp("single"))

"""Fixtures of the command-line tests."""

from __future__ import annotations

import pathlib

import pytest

from support import chain, step_files

CLASSIFIER = step_files.PARITY / "classifier.py"
SMALL = ("--features", "5", "--classes", "3")


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A small classifier's archive, with its weights and data beside it."""
    path = tmp_path_factory.mktemp("archive") / "step.pt"
    chain.export(CLASSIFIER, path, SMALL)
    return path


@pytest.fixture(scope="session")
def compiled(archive: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> chain.Compiled:
    """The classifier for two ranks."""
    folder = tmp_path_factory.mktemp("compiled")
    return chain.lower(CLASSIFIER, archive, folder, SMALL, "mesh=2")

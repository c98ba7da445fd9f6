"""Options and paths that all Python tests share."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

# One compute thread, here and in every program the tests start: reductions
# split over threads would change their bits.
os.environ.setdefault("OMP_NUM_THREADS", "1")

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "python"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take hours")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: runs only with --long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="needs --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)

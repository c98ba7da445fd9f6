"""Fixtures of the parity tests."""

from __future__ import annotations

from typing import Iterator

import pytest

from support.fsdp2 import Pool


@pytest.fixture(scope="session")
def fsdp2() -> Iterator[Pool]:
    pool = Pool(4)
    yield pool
    pool.close()

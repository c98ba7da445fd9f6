"""What the driver's tests train."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.driver_tree import Tree


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setenv("FSDP_MLIR_BIN", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    return Tree(tmp_path)

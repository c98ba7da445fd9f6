"""Tests that models of libraries and scripts train as in eager PyTorch, or are refused with an
error: a dozen of them, and all with `--long`; and that the table says by which operator bits
differ."""

from __future__ import annotations

import csv
import pathlib
import re
import sys

import pytest

from support import chain
from support.outcomes import CLOSE, PASSED

ZOO = pathlib.Path(__file__).resolve().parent / "zoo.py"


def _run(*flags: str, timeout: float) -> None:
    print(chain.command([sys.executable, ZOO, "--compare", *flags], timeout=timeout).stdout)


def _read(table: pathlib.Path) -> list[dict[str, str]]:
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.quick
def test_the_table_names_the_operator_of_what_is_close() -> None:
    """Or says why it does not."""
    for row in _read(ZOO.with_name("results.csv")):
        expected = r"\w+\.\w+|not named: .+" if row["status"] == CLOSE else ""
        assert re.fullmatch(expected, row["operator"]), row


def test_an_operator_is_named(tmp_path: pathlib.Path) -> None:
    table = tmp_path / "results.csv"
    chain.command([sys.executable, ZOO, "--only=nn/multi-margin", "--output", table])
    (row,) = _read(table)
    # A processor may have kernels with the same bits.
    found = row["status"], row["operator"]
    assert found in ((CLOSE, "aten.multi_margin_loss"), (PASSED, ""))


@pytest.mark.quick
def test_one_model() -> None:
    _run("--only=nn/lstm-packed-ragged", timeout=300)


def test_a_dozen_models() -> None:
    _run("--dozen", timeout=600)


@pytest.mark.long
def test_all_models() -> None:
    _run("--jobs=2", timeout=6 * 3600)

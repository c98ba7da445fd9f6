"""Tests that PyTorch's operators train as in eager PyTorch, bit for bit, or are
refused with an error: a tenth of them, and all with `--long`."""

from __future__ import annotations

import pathlib
import sys

import pytest

from support import chain

OPS = pathlib.Path(__file__).resolve().parent / "ops.py"


def _run(*flags: str, timeout: float) -> None:
    print(chain.command([sys.executable, OPS, "--compare", *flags], timeout=timeout).stdout)


@pytest.mark.quick
def test_matrix_product_has_pytorchs_numbers() -> None:
    _run("--only=mm", timeout=300)


def test_a_tenth_of_the_operators() -> None:
    _run("--tenth", timeout=1200)


@pytest.mark.long
def test_all_operators() -> None:
    _run("--jobs=2", timeout=6 * 3600)

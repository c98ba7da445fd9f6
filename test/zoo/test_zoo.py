"""Tests that models of libraries and scripts train as in eager PyTorch, or are refused with an
error: a dozen of them, and all with `--long`."""

from __future__ import annotations

import pathlib
import sys

import pytest

from support import chain

ZOO = pathlib.Path(__file__).resolve().parent / "zoo.py"


def _run(*flags: str, timeout: float) -> None:
    print(chain.command([sys.executable, ZOO, "--compare", *flags], timeout=timeout).stdout)


@pytest.mark.quick
def test_one_model() -> None:
    _run("--only=nn/lstm-packed-ragged", timeout=300)


def test_a_dozen_models() -> None:
    _run("--dozen", timeout=600)


@pytest.mark.long
def test_all_models() -> None:
    _run("--jobs=2", timeout=6 * 3600)

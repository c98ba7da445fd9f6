"""Tests that any order of passes ends with an error that says why, or with a plan
whose run has the bits of the pipeline that the order was made from: forty orders,
and two thousand with `--long`."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from support import chain

HERE = pathlib.Path(__file__).resolve().parent


def _fuzz(seeds: str, timeout: float) -> None:
    print(chain.command([sys.executable, HERE / "pass_fuzz.py", "--seeds", seeds], timeout=timeout))


@pytest.mark.quick
def test_orders_end_well() -> None:
    _fuzz("0:40", timeout=600)


@pytest.mark.long
def test_many_orders_end_well() -> None:
    _fuzz("40:2040", timeout=4 * 3600)


def test_bad_ends_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash, an exit without a word; an error that says why is none."""
    monkeypatch.syspath_prepend(str(HERE))
    from pass_fuzz import Failure, refusal

    def done(code: int, output: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], code, "", output)

    assert refusal("fsdp-opt", done(1, "step.mlir:3:1: error: no mesh\nmodule {")) == "no mesh"
    for code, output in ((-6, "error: so"), (1, "error: so\nStack dump:"), (1, "remark: so")):
        with pytest.raises(Failure):
            refusal("fsdp-opt", done(code, output))

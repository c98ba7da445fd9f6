"""Tests that no call which the checker lets through makes a kernel leave its operands' memory."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

from support import chain

HERE = pathlib.Path(__file__).resolve().parent


def _run(*flags: object, timeout: float) -> str:
    program = [sys.executable, HERE / "kernels.py", *flags]
    done = chain.command(program, check=False, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.quick
def test_guards_see_what_leaves() -> None:
    """A fused optimizer alone, whose kernel compares no sizes, ends its process."""
    program = (
        "import ctypes, os, torch\n"
        "ctypes.CDLL(os.environ['LD_PRELOAD']).guard_tensors(1)\n"
        "a, b = [torch.ones(4096)], [torch.ones(1)]\n"
        "torch.ops.aten._fused_sgd(a, b, [], weight_decay=0., momentum=0., lr=1., dampening=0.,\n"
        "    nesterov=False, maximize=False, is_first_step=False)\n"
    )
    guards = {**os.environ, "LD_PRELOAD": str(chain.binary("guard_pages.so"))}
    done = chain.command([sys.executable, "-c", program], env=guards, check=False)
    assert done.returncode < 0


def test_no_call_leaves_its_operands() -> None:
    _run("--calls", 10, timeout=400)


def test_no_call_of_our_own_operators_leaves_its_operands() -> None:
    _run("--own", "--calls", 150, timeout=400)


@pytest.mark.long
def test_no_call_of_many_leaves_its_operands() -> None:
    _run("--calls", 400, "--seed", 1, timeout=6 * 3600)

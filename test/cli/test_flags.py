"""Tests the help of fsdp-run, its errors about flags, and what bash completes."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from cli.refusals import refused
from support import chain

MOST_LINES = 50


def help_of(flag: str) -> str:
    return chain.command([chain.binary("fsdp-run"), flag]).stdout


@pytest.mark.quick
def test_help_is_a_screen_and_help_all_has_every_flag() -> None:
    screen, everything = help_of("--help"), help_of("--help-all")
    assert len(screen.splitlines()) <= MOST_LINES
    listed = help_of("--list-flags").splitlines()
    names = [line.partition("\t")[0] for line in listed]
    assert len(names) == len(set(names)) > 40
    shown = [name for name in names if f" {name} " in screen or f",{name} " in screen]
    assert "--weights" in shown and "--poison" not in shown and len(shown) > 20
    assert [name for name in names if name not in everything] == []
    assert "--supervisor" not in everything + str(names)


def test_a_flag_that_is_none_has_a_nearest(tmp_path: pathlib.Path) -> None:
    run = [chain.binary("fsdp-run"), tmp_path / "never.read"]
    for words, message in (
        (["--stpes", "3"], r"error: there is no flag --stpes; the nearest is --steps; see"),
        (["--metric=x"], r"error: there is no flag --metric=x; the nearest is --metrics; see"),
        (["other.plan"], r"error: 'other.plan' stands behind the plan, of which there is one"),
    ):
        refused([*run, *words], message, absent=tmp_path / "saved")


@pytest.fixture(scope="module")
def completion(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("completion") / "script"
    path.write_text(chain.command([sys.executable, "-m", "fsdp_mlir.completion"]).stdout)
    return path


@pytest.mark.parametrize(
    "function, line, expected",
    (
        ("_fsdp_run", "fsdp-run --comm g", ["gloo"]),
        ("_fsdp_run", "fsdp-run step.plan --checkpoint-i", ["--checkpoint-interval"]),
        ("_fsdp_run", "fsdp-run --steps 1", []),
        ("_fsdp_run", "fsdp-run --weights st", ["step.plan"]),
        ("_fsdp_run", "fsdp-run st", ["step.plan"]),
        ("_fsdp_python", "python -m fsdp_mlir.train --non-finite s", ["stop", "skip"]),
        ("_fsdp_python", "python -m fsdp_mlir.train --pip", ["--pipeline"]),
        ("_fsdp_python", "python -m other --pip", []),
    ),
)
def test_bash_completes(
    function: str,
    line: str,
    expected: list[str],
    completion: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "step.plan").touch()
    words = line.split()
    code = f"source {completion}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; {function}; "
    done = subprocess.run(
        ["bash", "-c", code + 'printf "%s\\n" "${COMPREPLY[@]}"'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout.split() == expected

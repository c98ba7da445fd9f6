"""Tests the help of all programs, errors about flags, and what bash completes."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from product.cli.refusals import refused
from fsdp_mlir.__main__ import PROGRAMS as PACKAGED
from fsdp_mlir.__main__ import main as package_main
from support import chain

MOST_LINES = {"fsdp-run": 50}  # of others: 40
# Of fsdp-run --help: where a reader looks for what.
GROUPS = {
    "What a run reads": "weights data eval-data",
    "What it writes": "save metrics trace",
    "How it trains": "steps epochs seed",
    "What it says": "log-interval progress",
    "Checkpoints": "checkpoint-dir checkpoint-interval resume",
    "Ranks and hosts": "nproc nnodes node-rank master-addr master-port comm",
    "In place of a run": "doctor explain version help help-all",
}
PROGRAMS = ("fsdp-opt", "fsdp-run", "fsdp-translate")
OTHERS = ("fsdp-reduce", "fsdp-simulate")
MODULES = ("checkpoint", "completion", "explain", "export", "report", "train")


def command_of(program: str) -> list[object]:
    if program.startswith("fsdp-"):
        return [chain.binary(program)]
    return [sys.executable, "-m", f"fsdp_mlir.{program}"]


def output_of(program: str, flag: str) -> str:
    return chain.command([*command_of(program), flag]).stdout


@pytest.mark.quick
@pytest.mark.parametrize("program", (*PROGRAMS, *MODULES))
def test_help_is_a_screen(program: str) -> None:
    """Where it does not show every flag, it says what does, which has those that it shows."""
    screen = output_of(program, "--help")
    assert 1 < len(screen.splitlines()) <= MOST_LINES.get(program, 40)
    if program in (*PROGRAMS, "train"):
        everything = output_of(program, "--help-all")
        assert len(everything) > 1.5 * len(screen)
        shown = set(re.findall(r"(?<!\S)--[a-z][a-z-]+", screen)) - {"--fsdp-"}
        assert "--help-all" in shown and len(shown) > 6
        assert {flag for flag in shown - {"--help-all"} if flag not in everything} == set()


@pytest.mark.parametrize("program", (*PROGRAMS, *MODULES, *OTHERS))
def test_help_that_cannot_be_written_is_one_error(program: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*command_of(program), "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**chain.environment(), "PYTHONUNBUFFERED": ""},
        )
    assert done.returncode == 1
    assert re.fullmatch(r"error: .*: No space left on device.* \[FSDP-E0005\]\n", done.stderr)


def test_the_package_names_its_programs(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, message in (
        (["trian"], "; the nearest is train [FSDP-E0101]"),
        (["train", "--nproc", "2", "STEP.py"], "call it as python -m fsdp_mlir.train [FSDP-E0101]"),
        ([], "required: PROGRAM; it is one of train, export"),
    ):
        with pytest.raises(SystemExit):
            package_main(argv)
        assert message in capsys.readouterr().err
    assert set(PACKAGED) == set(MODULES)


def groups_of(screen: str) -> dict[str, list[str]]:
    """By heading: the flags below it."""
    parts = re.split(r"^(\S.*):\n(?=  -)", screen, flags=re.M)[1:]
    flags = [re.findall(r"^  (?:-\w,)?--([\w-]+)", part, re.M) for part in parts[1::2]]
    return dict(zip(parts[::2], flags, strict=True))


def test_help_is_grouped_by_what_flags_are_for() -> None:
    """Each flag of every day is below its heading; --help-all has the same headings with more."""
    screen, everything = (output_of("fsdp-run", flag) for flag in ("--help", "--help-all"))
    assert groups_of(screen) == {name: flags.split() for name, flags in GROUPS.items()}
    whole = groups_of(everything)
    assert list(whole) == list(GROUPS)
    assert all(set(flags) <= set(whole[name]) for name, flags in groups_of(screen).items())
    for line in (screen + everything).splitlines():
        assert len(line) <= 100, line
    for shown in ("  --no-shuffle  ", "  --trace-steps A:B  ", "  --progress KIND  "):
        assert shown in everything


def test_help_all_has_every_flag() -> None:
    screen, everything = (output_of("fsdp-run", flag) for flag in ("--help", "--help-all"))
    listed = output_of("fsdp-run", "--list-flags").splitlines()
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


def test_a_command_that_is_missing_is_one_of_those_there_are() -> None:
    for module, message in (
        ("fsdp_mlir", "required: PROGRAM; it is one of train, export, report, .*FSDP-E0101"),
        ("fsdp_mlir.checkpoint", "required: COMMAND; it is one of inspect, verify, .*FSDP-E0101"),
    ):
        done = chain.command([sys.executable, "-m", module], check=False)
        assert done.returncode == 2 and re.search(message, done.stderr), done.stderr


def test_who_has_flags_checked_tells_the_other_hosts(tmp_path: pathlib.Path) -> None:
    """As the driver does. It shows the error, which is said without waiting for them."""
    meeting = ["--nproc", 1, "--nnodes", 2, "--node-rank", 0, "--master-addr", "127.0.0.1"]
    run = [chain.binary("fsdp-run"), tmp_path / "none.plan", *meeting, "--master-port", 1]
    for words, message in (
        (["--check-flags", "--keep=-1"], r"error: --keep: '-1' is no whole number"),
        (["--check-flags-for", "cpu", "--cuda-graph"], "error: --cuda-graph is for GPUs, and the"),
    ):
        said = refused([*run, *words], message, absent=tmp_path / "saved")
        assert "other hosts" not in said


def test_no_file_is_written_over_what_is_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "step.plan").write_text("a plan")
    (tmp_path / "link").symlink_to("step.plan")
    (tmp_path / "second").hardlink_to(tmp_path / "step.plan")
    data, out = tmp_path / "data.safetensors", tmp_path / "out"
    for words, message in (
        (["--metrics", tmp_path / "step.plan"], "--metrics .* would write over the plan; name"),
        (["--trace", tmp_path / "link"], "--trace .* would write over the plan; name"),
        (["--metrics", tmp_path / "second"], "--metrics .* would write over the plan; name"),
        (["--data", data, "--save", data], "--save .* would write over --data; name"),
        (["--metrics", out, "--trace", out], "--metrics and --trace both write .*out; name"),
        (["--save", ""], "error: --save: its value is empty; is a variable"),
        (["--metrics", out, "--metrics", out], "error: --metrics is given more than once; see"),
    ):
        refused([chain.binary("fsdp-run"), tmp_path / "step.plan", *words], message, absent=out)
    assert (tmp_path / "step.plan").read_text() == "a plan"


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

"""Tests which flags and settings reach a run of the driver, and what is an error in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fsdp_mlir.driver.flags import flags_of, make_parser, parse
from fsdp_mlir.driver.pipeline import Options, with_mesh
from fsdp_mlir.driver.settings import write_settings
from fsdp_mlir.train import main
from support.driver_tree import Tree


def test_flags_after_the_step_file_are_its_own() -> None:
    """Tests that the driver takes nothing that stands behind the step file."""
    args = parse(["--epochs", "1", "step.py", "--epochs", "5", "--nproc", "9"])
    assert (args.epochs, args.nproc, args.argv) == (1, 1, ["--epochs", "5", "--nproc", "9"])


def test_flags_that_are_unlike_what_is_meant_are_notes(
    tree: Tree, capfd: pytest.CaptureFixture[str]
) -> None:
    """Tests a flag that has strayed behind the step file, and a name of torch.save's for weights."""
    tree.step.write_text(f"{tree.step.read_text()}\n# --log-interval is this file's\n")
    saved = tree.folder / "out" / "trained.pt"
    flags = ("--nproc", "2", "--log-interval=3", "--width", "2")
    assert tree.train("--save", str(saved), argv=flags) == 0
    said = capfd.readouterr().out
    assert said.count("stands behind step.py") == 1 and "note: --nproc stands behind" in said
    assert "trained.pt becomes a safetensors file, which torch.load does not read" in said


def test_machines_need_a_meeting_point(capsys: pytest.CaptureFixture[str]) -> None:
    """Tests that several machines without an address are refused."""
    with pytest.raises(SystemExit):
        parse(["--nnodes", "2", "step.py"])
    assert "--master-addr" in capsys.readouterr().err


def test_the_mesh_is_filled_in() -> None:
    """Tests that the user's mesh wins over the number of ranks."""
    assert str(with_mesh(Options(), [4])) == "mesh=4"
    assert str(with_mesh(Options(), [2, 2])) == "mesh=2x2"
    assert str(with_mesh(Options.of(["units=all"]), [4])) == "mesh=4 units=all"
    assert str(with_mesh(Options.of(["mesh= units=all"]), [4])) == "mesh=4 units=all"
    assert str(with_mesh(Options.of(["mesh=2 units=all"]), [4])) == "mesh=2 units=all"


def test_flags_of_every_day_reach_the_run(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    """Tests that they are passed on as they are, 0 as well, and that one which the step cannot serve
    is an error before the run."""
    flags = "--seed 0 --no-shuffle --eval-interval 2 --log-interval 3 --log-grad-norm --keep 0"
    assert tree.train(*flags.split()) == 1
    assert "--eval-interval: the step file has nothing to evaluate" in capfd.readouterr().err
    text = tree.step.read_text()
    tree.step.write_text(text.replace("epochs=2", 'eval_data={"x": x}, epochs=2'))
    assert tree.train(*flags.split()) == 0
    command = " ".join(tree.log()[-1])
    assert flags.replace(" --keep 0", "") in command
    assert "--checkpoint-dir" in command and "--keep 0" in command


def test_a_run_leaves_its_settings(tree: Tree) -> None:
    """Tests that the file of a run is the same run again, and that flags win over it."""
    given = [
        "--nproc",
        "2",
        "--log-grad-norm",
        "--pipeline",
        "units=all remat=full",
        "--steps",
        "4",
    ]
    assert tree.train(*given, argv=("--lr", "0.1")) == 0
    first = tree.log()
    file = tree.folder / "out" / "run.toml"
    assert main(["--config", str(file)]) == 0
    assert tree.log()[-1] == first[-1]
    args = parse(["--config", str(file), "--epochs", "3", "--pipeline", "remat=none", "other.py"])
    assert (args.nproc, args.steps, args.epochs, args.log_grad_norm) == (2, None, 3, True)
    assert str(args.pipeline) == "units=all remat=none"
    assert (args.step_file, args.argv, args.report) == (Path("other.py"), [], False)


@pytest.mark.quick
def test_a_name_that_is_no_text_is_kept(tmp_path: Path) -> None:
    """As names are to a locale without their characters."""
    given = parse(["--out", os.fsdecode(b"out-\xff"), "step.py"])
    write_settings(tmp_path / "run.toml", given, flags_of(make_parser()))
    assert parse(["--config", str(tmp_path / "run.toml")]).out == given.out


@pytest.mark.provokes("FSDP-E0101", "FSDP-E0104")
@pytest.mark.parametrize(
    "text, message",
    [
        ("nprocs = 2", "there is no flag --nprocs; the nearest is 'nproc'"),
        ("no-shuffle = 1", "no-shuffle takes true or false"),
        ("seed = [1]", "seed takes one value"),
        ("pipeline = 'units=all'", "pipeline is a table of options"),
        ("step = 'x.py'", "step is a list"),
        ("nproc = 0", "run.toml: argument --nproc: 0 is not positive"),
        ("nproc 2", "line 1"),
        (None, "No such file"),
    ],
)
def test_settings_that_cannot_be(
    text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tests that a file that says nothing sensible is one error, which names the file or flag."""
    file = tmp_path / "run.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SystemExit):
        parse(["--config", str(file), "step.py"])
    error = capsys.readouterr().err
    assert message in error and error.count("error:") == 1


def test_a_flag_that_is_none_has_a_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """Tests a misspelt flag, and a command line without a step file."""
    for argv, message in (
        (["--eval-intervall=2", "step.py"], "--eval-intervall; the nearest is --eval-interval"),
        (["--nproc", "2"], "no STEP.py is given"),
    ):
        with pytest.raises(SystemExit):
            parse(argv)
        assert message in capsys.readouterr().err

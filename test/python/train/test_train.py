"""Tests that the driver runs the stages in order, once, and reports failures in a line.

The programs are stand-ins that write what they were asked; the real ones are
driven by test_end_to_end.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fsdp_mlir.driver import stages
from fsdp_mlir.driver.pipeline import Options
from fsdp_mlir.driver.progress import archive_metadata
from fsdp_mlir.driver.step_hooks import constants
from fsdp_mlir.train import main
from support.driver_tree import STEP, Tree


@pytest.mark.quick
def test_stages_run_in_order_and_once(
    tree: Tree, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests the whole way, what a second run repeats, and what a change repeats."""
    assert tree.train("--nproc", "2", argv=("--width", "2")) == 0
    log = tree.log()
    assert [line[0] for line in log] == [
        "fsdp-translate",
        "fsdp-opt",
        "fsdp-translate",
        "fsdp-run",
    ]
    assert "--import-torchscript" in log[0]
    assert "--fsdp-pipeline=mesh=2" in log[1]
    assert "--fsdp-to-plan" in log[2]
    assert log[3][2:4] == ["--nproc", "2"]
    assert "--data" in log[3] and "--eval-data" not in log[3]
    out = capfd.readouterr().out
    assert "flags --width 2" in out
    assert "epoch 1/2  loss 0.7500  eval_loss 1.0000  perplexity 2.7" in out
    assert "trained ['--width', '2'] ['bias'" in out
    assert f"\n         weights     {tree.folder}/out/trained.safetensors\n" in out
    assert (tree.folder / "out" / "loss.png").exists()

    assert tree.train("--nproc", "2", argv=("--width", "2")) == 0
    assert [line[0] for line in tree.log()] == ["fsdp-run"]
    out = capfd.readouterr().out
    assert out.count("(unchanged)") == 4
    assert "flags --width 2" in out

    # Other options start at the stage that reads them.
    assert tree.train("--nproc", "2", "--pipeline", "units=all", argv=("--width", "2")) == 0
    assert [line[0] for line in tree.log()] == ["fsdp-opt", "fsdp-translate", "fsdp-run"]

    # A module that the step file imports starts at the export, and so does what that reads.
    tree.helper.write_text("import os\nWIDTH = int(os.getenv('STEP_WIDTH', 5))\n")
    for width, again in (("5", True), ("6", True), ("6", False)):
        monkeypatch.setenv("STEP_WIDTH", width)
        capfd.readouterr()
        assert tree.train("--nproc", "2", argv=("--width", "2")) == 0
        assert ("(unchanged)" not in capfd.readouterr().out.splitlines()[0]) == again


def test_the_driver_starts_without_pytorch(tmp_path: Path) -> None:
    """Tests that it is there in an instant, and that an interrupt by then is one line."""
    command = [sys.executable, "-m", "fsdp_mlir.train", "--help"]
    environment = {**os.environ, "PYTHONPATH": stages.python_path()}
    watched = subprocess.run(
        [command[0], "-X", "importtime", *command[1:]],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "fsdp_mlir.driver" in watched.stderr and "torch" not in watched.stderr
    # One of the modules that are imported, by the driver or by the package before it, in the place
    # of Python's own.
    path = environment["PYTHONPATH"]
    for name in ("tomllib", "difflib"):
        (tmp_path / name).mkdir()
        once = tmp_path / name / "once"
        text = f"import os, pathlib\nif not (once := pathlib.Path('{once}')).exists():\n"
        text += "    once.touch()\n    os.kill(os.getpid(), 2)"
        (tmp_path / name / f"{name}.py").write_text(text)
        environment["PYTHONPATH"] = f"{tmp_path / name}:{path}"
        stopped = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (stopped.returncode, stopped.stderr) == (130, "error: interrupted [FSDP-E0003]\n")


def test_data_that_fill_no_step_are_refused_before_compiling(
    tree: Tree, capfd: pytest.CaptureFixture[str]
) -> None:
    """Tests ranks and micro-batches that take more samples than there are."""
    for flags, takes in (
        (("--nproc", "5"), "8 samples, fewer than a step of all ranks takes: 5 x 2;"),
        (("--accumulate", "5"), "all ranks takes: 1 x 2 x 5 micro-batches; use more data"),
    ):
        assert tree.train(*flags) == 1
        assert takes in capfd.readouterr().err and tree.log() == []


@pytest.mark.parametrize(
    "flags, message, exports",
    (
        ("--keep-best none", "--keep-best none is no metric of the step, which has loss ", True),
        ("--keep-best eval_loss", "has loss; it evaluates nothing: give TrainingStep eval", True),
        ("--trace-steps 3:9", "--trace-steps 3:9 goes beyond the run's 8 steps; name ", True),
        ("--eval-outputs o", "--eval-outputs: the step's evaluation gives nothing for each", True),
        ("--steps 1 --trace-steps 1:2", "1:2 goes beyond the run's 1 step; name steps", False),
        ("--weights step.py", "--weights: step.py is no file of tensors alone: torch.save", False),
        ("--weights other.pt", "--weights: other.pt has no weight, bias; it has w, which", True),
    ),
)
def test_what_the_step_lacks_is_said_before_it_is_compiled(
    flags: str, message: str, exports: bool, tree: Tree, capfd: pytest.CaptureFixture[str]
) -> None:
    torch.save({"w": torch.zeros(1)}, "other.pt")
    given = [*flags.split(), *(["--trace", "trace.json"] if "--trace-steps" in flags else [])]
    assert tree.train(*given) == 1
    out, err = capfd.readouterr()
    assert message in err and tree.log() == []
    assert ("export " in out) == (exports and "--weights" in flags)
    assert (tree.folder / "out" / "step.pt").exists() == exports


def test_metrics_of_passes_and_of_evaluations_are_some(
    tree: Tree, capfd: pytest.CaptureFixture[str]
) -> None:
    """Tests that `--keep-best` takes those that are known when the step is compiled."""
    tree.step.write_text(
        STEP.replace("epochs=2,", "epochs=2, eval_data={'x': x}, metrics=metrics,")
        + "def metrics(model, x):\n    return {'mean': model(x).mean()}\n"
    )
    for name in ("mean", "eval_mean", "eval_loss", "grad_norm"):
        assert tree.train("--keep-best", name) == 0
    assert tree.train("--keep-best", "means") == 1
    assert "which has loss, mean, eval_loss, eval_mean [" in capfd.readouterr().err


def test_fast_kernels_are_measured_first(
    tree: Tree, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests that the exact plan's products are measured into a table of the cache, which the plan
    with fast kernels is compiled by; and that a given table is taken."""
    assert tree.train("--pipeline", "kernels=fast units=all") == 0
    log = tree.log()
    assert [line[0] for line in log] == [
        "fsdp-translate",
        *("fsdp-opt", "fsdp-translate", "fsdp-run"),
        *("fsdp-opt", "fsdp-translate", "fsdp-run"),
    ]
    assert "--fsdp-pipeline=mesh=1 units=all" in log[1]
    table = log[3][-1]
    assert log[3][1:] == [str(tree.folder / "out" / "step.exact.plan"), "--tune", table]
    assert Path(table).parent == tree.folder / "cache" / "kernels"
    assert f"--fsdp-pipeline=mesh=1 kernels=fast units=all kernel-table={table}" in log[4]
    assert "measured 3 of 3 products" in capfd.readouterr().out

    # fsdp-run knows what it has measured; the table's contents are what a plan comes from.
    assert tree.train("--pipeline", "kernels=fast units=all") == 0
    assert [line[0] for line in tree.log()] == ["fsdp-run", "fsdp-run"]
    mine = tree.folder / "mine.toml"
    for text in ("mine", "another"):
        mine.write_text(text)
        assert tree.train("--pipeline", f"kernels=fast kernel-table={mine}") == 0
        log = tree.log()
        assert (log[0][0], log[-1][0]) == ("fsdp-opt", "fsdp-run")
        assert not any("--tune" in line for line in log)

    meeting = ("--nnodes", "2", "--master-addr", "here", "--master-port", "1")
    assert tree.train("--pipeline", "kernels=fast", *meeting) == 1
    assert "needs one table for all of them" in capfd.readouterr().err
    # Which the other machine is told.
    ((_, _, why, *where),) = tree.log()
    assert "needs one table" in why and why.startswith("--decline=") and "FSDP-E" not in why
    assert where == ["--nproc", "1", *meeting[:2], "--node-rank", "0", *meeting[2:]]


@pytest.mark.parametrize(
    "tool, stage", [("fsdp-opt", "shard"), ("fsdp-run", "run")], ids=("stage", "run")
)
def test_a_failing_stage_is_one_line(
    tree: Tree, capfd: pytest.CaptureFixture[str], tool: str, stage: str
) -> None:
    """Tests that the program's error is shown once, by every rank or not, with its status."""
    message = "noise\n" + 2 * "error: the fact; the fix [FSDP-E0401]\n"
    (tree.bin / f"{tool}.fail").write_text(message)
    assert tree.train() == 4
    assert capfd.readouterr().err == f"error: {stage}: the fact; the fix [FSDP-E0401]\n"
    assert not (tree.folder / "out" / "trained.safetensors").exists()


def test_a_step_without_a_length_ends_before_it_is_captured(
    tree: Tree, capfd: pytest.CaptureFixture[str]
) -> None:
    tree.step.write_text(STEP.replace("epochs=2,", ""))
    assert tree.train() == 1
    error = capfd.readouterr().err
    assert error.startswith("error: export: step.py:")
    assert "the step has no length; give TrainingStep epochs or steps" in error
    assert tree.log() == []
    assert tree.train("--steps", "4") == 0
    tree.log()
    assert tree.train() == 1  # the archive of before has none either
    assert "the step has no length; give --epochs or --steps" in capfd.readouterr().err
    assert tree.log() == []


@pytest.mark.provokes("FSDP-E0209")
def test_a_step_file_that_fails_is_one_line(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    """Tests that an exception in the step file ends as a line without a traceback."""
    tree.step.write_text("def training_step(argv):\n    raise RuntimeError('no luck')\n")
    assert tree.train() == 1
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("error: export: ") and "no luck" in error
    assert tree.log() == []


@pytest.mark.provokes("FSDP-E0006")
def test_missing_programs_are_named(
    tree: Tree, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests that an unbuilt tree is said before anything is done."""
    (tree.bin / "fsdp-opt").unlink()
    assert tree.train() == 1
    assert "fsdp-opt not found" in capfd.readouterr().err
    assert not (tree.folder / "out").exists()


def test_a_missing_step_file(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    """Tests that a wrong path is named."""
    assert main(["nowhere.py"]) == 1
    assert capfd.readouterr().err == "error: nowhere.py: no such step file [FSDP-E0201]\n"
    for wrong in ("stp.py", "step"):
        assert main([wrong]) == 1
        assert f"{wrong}: no such step file; the nearest is step.py [" in capfd.readouterr().err


def test_dry_run_shows_the_commands(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    """Tests that the commands are those a user can type, and that none runs."""
    assert tree.train("--dry-run", "--nproc", "3", "--steps", "5") == 0
    shown = capfd.readouterr()
    lines = shown.out.splitlines()
    assert len(lines) == 5
    assert "mesh=3" in lines[2] and "leave mesh=3 out if the model has a mesh" in shown.err
    assert "fsdp_mlir.export" in lines[0]
    assert "--steps 5" in lines[-1] and "--nproc 3" in lines[-1]
    assert tree.train("--dry-run", "--pipeline", "kernels=fast") == 0
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 8
    assert "kernels=fast" not in lines[2] and "kernels=fast kernel-table=" in lines[5]
    assert "--tune" in lines[4]
    assert tree.train("--dry-run", "--pipeline", "mesh=1") == 0
    assert not capfd.readouterr().err
    assert tree.log() == []


def test_options_are_the_words_that_were_given() -> None:
    """Tests that quotes hold an option together, and that the compiler sees each word."""
    options = Options.of(['mesh=2 units="a b" mesh=3', "kernels=fast"])
    assert options.items() == [("mesh", "2"), ("units", "a b"), ("mesh", "3"), ("kernels", "fast")]
    assert str(options) == 'mesh=2 units="a b" mesh=3 kernels=fast'
    assert str(options.without("mesh").adding("kernel-table", "my table")) == (
        'units="a b" kernels=fast kernel-table="my table"'
    )


@pytest.mark.parametrize("kind", ("continue", "stop", "skip"))
def test_a_plan_is_compiled_for_what_is_not_finite(
    kind: str, tree: Tree, capfd: pytest.CaptureFixture[str]
) -> None:
    """Tests that whoever wants steps left out gets a plan that can, and that a user's own word
    about it counts."""
    assert tree.train("--dry-run", "--non-finite", kind) == 0
    lines = capfd.readouterr().out.splitlines()
    assert f"--non-finite {kind}" in lines[-1]
    assert ("non-finite=skip" in lines[2]) == (kind != "continue")
    own = ("--pipeline", "non-finite=apply")
    assert tree.train("--dry-run", "--non-finite", kind, *own) == 0
    assert "non-finite=skip" not in capfd.readouterr().out


def test_the_models_mesh_is_the_runs(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    """Tests that a run needs as many ranks as the mesh that the model describes."""
    tree.step.write_text(
        STEP.replace(
            "import helper", "import helper\nfrom fsdp_mlir import fully_shard, DeviceMesh"
        ).replace(
            "    x = torch", '    fully_shard(model, mesh=DeviceMesh("cpu", [0, 1]))\n    x = torch'
        )
    )
    assert tree.train() == 1
    assert "the model's mesh has 2 ranks and this run 1; give --nproc 2" in capfd.readouterr().err
    assert tree.train("--nproc", "2") == 0


def test_constants_are_read_without_running(tmp_path: Path) -> None:
    """Tests that hooks are found without importing the step file."""
    path = tmp_path / "step.py"
    path.write_text("raise SystemExit\nA = 1\nB = f()\ndef after_training(a, w): pass\n")
    assert constants(path) == {"A": 1, "after_training": True}
    path.write_text("def (")
    assert constants(path) == {}


def test_error_line() -> None:
    """Tests that the cause is picked from what a program wrote."""
    assert stages.error_line("x\nstep.mlir:3: error: bad\nerror: later\n") == (
        "step.mlir:3: error: bad"
    )
    assert stages.error_line("Traceback (most\n  x\nValueError: bad\n") == "ValueError: bad"
    assert stages.error_line("usage: step.py\nstep.py: error: bad\n") == "step.py: bad"
    assert stages.error_line("") == ""


@pytest.mark.provokes("FSDP-E0615")
def test_a_program_that_is_killed_has_the_error_s_identifier() -> None:
    error = stages.failed("run", "", -9)
    assert str(error) == "run: ended by signal SIGKILL [FSDP-E0615]" and error.code == 137


def test_accumulate_is_the_command_lines(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    """Tests that the exporter gets the number of micro-batches, and that the archive has it."""
    assert tree.train("--accumulate", "2") == 0
    assert archive_metadata(tree.folder / "out" / "step.pt")["accumulate"] == 2
    capfd.readouterr()
    assert tree.train("--accumulate", "2", "--dry-run") == 0
    assert "--accumulate 2 -o" in capfd.readouterr().out.splitlines()[0]

"""Tests that the driver runs the stages in order, once, and reports failures in a line.

The programs are stand-ins that write what they were asked; the real ones are
driven by test_end_to_end.py.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from fsdp_mlir.driver import programs, stages
from fsdp_mlir.driver.progress import archive_metadata
from fsdp_mlir.driver.step_hooks import after_training, constants
from fsdp_mlir.train import main, pipeline_options, trace_file
from fsdp_mlir.driver.flags import parse

STEP = """
import torch
import helper
from fsdp_mlir import TrainingStep

PERPLEXITY = True

def training_step(argv):
    print("flags", *argv)
    model = torch.nn.Linear(3, helper.WIDTH)
    x = torch.zeros(8, 3)
    return TrainingStep(
        model=model,
        loss=lambda model, x: model(x).sum(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        inputs={"x": x[:2]},
        data={"x": x},
        epochs=2,
    )

def after_training(argv, weights):
    print("trained", argv, sorted(weights))
"""

# Each appends its command line to `log`, and does what the file `script` says.
TOOL = """#!{python}
import json, pathlib, runpy, sys
here = pathlib.Path(__file__).parent
name, argv = pathlib.Path(__file__).name, sys.argv[1:]
with open(here / "log", "a") as log:
    log.write(json.dumps([name, *argv]) + "\\n")
if (here / (name + ".fail")).exists():
    sys.stderr.write((here / (name + ".fail")).read_text())
    sys.exit(4)
flag = lambda key: argv[argv.index(key) + 1]
if "--tune" in argv:
    pathlib.Path(flag("--tune")).write_text("a table")
    print("measured 3 of 3 products")
elif name != "fsdp-run":
    pathlib.Path(flag("-o")).write_text(" ".join([name, *argv[:2]]))
else:
    rows = [dict(step=s, loss=1.0 / s, tokens_per_s=7.0) for s in (1, 2, 3, 4)]
    rows[1]["eval_loss"] = 1.0
    rows[2]["units"] = dict(root=dict(grad_norm=2.0))
    pathlib.Path(flag("--metrics")).write_text("".join(json.dumps(r) + "\\n" for r in rows))
    pathlib.Path(flag("--save")).write_bytes(pathlib.Path(flag("--weights")).read_bytes())
"""


class Tree:
    """A step file with a local module, and stand-ins for the programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.step = folder / "step.py"
        self.step.write_text(STEP)
        self.helper = folder / "helper.py"
        self.helper.write_text("WIDTH = 2\n")
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in programs.NAMES:
            tool = self.bin / name
            tool.write_text(TOOL.format(python=sys.executable))
            tool.chmod(0o755)

    def train(self, *flags: str, argv: tuple[str, ...] = ()) -> int:
        options = ["--cache-dir", str(self.folder / "cache"), "--out", str(self.folder / "out")]
        options += ["--no-report"]  # stand-ins have nothing to report
        return main([*options, *flags, str(self.step), *argv])

    def log(self) -> list[list[str]]:
        """The command lines since the last call."""
        path = self.bin / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setenv("FSDP_MLIR_BIN", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    return Tree(tmp_path)


@pytest.mark.quick
def test_stages_run_in_order_and_once(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
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
    assert (tree.folder / "out" / "loss.png").exists()

    assert tree.train("--nproc", "2", argv=("--width", "2")) == 0
    assert [line[0] for line in tree.log()] == ["fsdp-run"]
    out = capfd.readouterr().out
    assert out.count("(unchanged)") == 4
    assert "flags --width 2" in out

    # Other options start at the stage that reads them.
    assert tree.train("--nproc", "2", "--pipeline", "units=all", argv=("--width", "2")) == 0
    assert [line[0] for line in tree.log()] == ["fsdp-opt", "fsdp-translate", "fsdp-run"]

    # A module that the step file imports starts at the export.
    tree.helper.write_text("WIDTH = 5\n")
    capfd.readouterr()
    assert tree.train("--nproc", "2", argv=("--width", "2")) == 0
    assert "(unchanged)" not in capfd.readouterr().out.splitlines()[0]


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
    assert tree.log() == []


@pytest.mark.parametrize(
    "tool, stage", [("fsdp-opt", "shard"), ("fsdp-run", "run")], ids=("stage", "run")
)
def test_a_failing_stage_is_one_line(
    tree: Tree, capfd: pytest.CaptureFixture[str], tool: str, stage: str
) -> None:
    """Tests that the program's error is shown once, by every rank or not, with its status."""
    message = "noise\nerror: the fact; the fix\nerror: the fact; the fix\n"
    (tree.bin / f"{tool}.fail").write_text(message)
    assert tree.train() == 4
    assert capfd.readouterr().err == f"error: {stage}: the fact; the fix\n"
    assert not (tree.folder / "out" / "trained.safetensors").exists()


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


def test_dry_run_shows_the_commands(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    """Tests that the commands are those a user can type, and that none runs."""
    assert tree.train("--dry-run", "--nproc", "3", "--steps", "5") == 0
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 5
    assert "fsdp_mlir.export" in lines[0]
    assert "--steps 5" in lines[-1] and "--nproc 3" in lines[-1]
    assert tree.train("--dry-run", "--pipeline", "kernels=fast") == 0
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 8
    assert "kernels=fast" not in lines[2] and "kernels=fast kernel-table=" in lines[5]
    assert "--tune" in lines[4]
    assert tree.log() == []


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


def test_flags_after_the_step_file_are_its_own() -> None:
    """Tests that the driver takes nothing that stands behind the step file."""
    args = parse(["--epochs", "1", "step.py", "--epochs", "5", "--nproc", "9"])
    assert (args.epochs, args.nproc, args.argv) == (1, 1, ["--epochs", "5", "--nproc", "9"])


def test_machines_need_a_meeting_point(capsys: pytest.CaptureFixture[str]) -> None:
    """Tests that several machines without an address are refused."""
    with pytest.raises(SystemExit):
        parse(["--nnodes", "2", "step.py"])
    assert "--master-addr" in capsys.readouterr().err


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


def test_the_mesh_is_filled_in() -> None:
    """Tests that the user's mesh wins over the number of ranks."""
    assert pipeline_options([], [4]) == "mesh=4"
    assert pipeline_options([], [2, 2]) == "mesh=2x2"
    assert pipeline_options(["units=all"], [4]) == "mesh=4 units=all"
    assert pipeline_options(["mesh=2 units=all"], [4]) == "mesh=2 units=all"


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
    assert stages.error_line("") == ""


@pytest.mark.provokes("FSDP-E0615")
def test_a_program_that_is_killed_has_the_error_s_identifier() -> None:
    error = stages.failed("run", "", -9)
    assert str(error) == "run: ended by signal SIGKILL [FSDP-E0615]" and error.code == 137


def test_flags_of_every_day_reach_the_run(tree: Tree) -> None:
    """Tests that they are passed on as they are, 0 as well."""
    flags = "--seed 0 --no-shuffle --eval-interval 2 --log-interval 3 --log-grad-norm --keep 0"
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
    assert " ".join(args.pipeline) == "units=all remat=none"
    assert (args.step_file, args.argv, args.report) == (Path("other.py"), [], False)


@pytest.mark.provokes("FSDP-E0101", "FSDP-E0104")
@pytest.mark.parametrize(
    "text, message",
    [
        ("nprocs = 2", "there is no flag --nprocs; the nearest is 'nproc'"),
        ("no-shuffle = 1", "no-shuffle takes true or false"),
        ("seed = [1]", "seed takes one value"),
        ("pipeline = 'units=all'", "pipeline is a table of options"),
        ("step = 'x.py'", "step is a list"),
        ("nproc = 0", "0 is not positive"),
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


def test_json_is_a_line_per_event(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    """Tests that every line is an object, from the first stage to the files at the end."""
    assert tree.train("--log-format", "json") == 0
    out = capfd.readouterr().out.splitlines()
    # What the step file's hook prints is its own.
    events = [json.loads(line) for line in out if not line.startswith("trained ")]
    kinds = [event["event"] for event in events]
    assert [e["stage"] for e in events if e["event"] == "stage"] == [
        "export",
        "import",
        "shard",
        "plan",
        "done",
    ]
    assert kinds.count("step") == 4 and kinds.count("run") == 1 and kinds[-1] == "files"
    assert {"event": "note", "text": "flags"} in events
    assert [e["loss"] for e in events if e["event"] == "step"] == [1.0, 0.5, 1 / 3, 0.25]


def test_the_run_writes_event_files(tree: Tree) -> None:
    assert tree.train("--tensorboard", "--peak-flops", "1e12") == 0
    run = tree.log()[-1]
    assert Path(run[run.index("--tensorboard") + 1]) == tree.folder / "out" / "tensorboard"
    assert float(run[run.index("--peak-flops") + 1]) == 1e12


class Wandb(types.ModuleType):
    """Stands in for the package: keeps what is logged, and fails from a step on."""

    def __init__(self, fails_from: int = 99) -> None:
        super().__init__("wandb")
        self.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
        self.fails_from = fails_from
        self.step, self.rows, self.ended = 0, [], 0

    def init(self, **given: Any) -> Wandb:
        self.given = given
        return self

    def log(self, values: dict[str, float], step: int) -> None:
        if step >= self.fails_from:
            raise OSError("no network")
        self.step = step
        self.rows.append((step, values))

    def finish(self) -> None:
        self.ended += 1


def test_metrics_reach_wandb(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", service := Wandb())
    assert tree.train("--wandb", "--steps", "4") == 0
    assert service.given["name"] == "step" and service.given["config"]["steps"] == "4"
    assert [step for step, _ in service.rows] == [1, 2, 3, 4]
    assert service.rows[1][1] == {"loss": 0.5, "tokens_per_s": 7.0, "eval_loss": 1.0}
    assert service.rows[2][1]["unit_grad_norm/root"] == 2.0
    assert service.ended == 1
    # The run goes on in the same one, from where it was; and without the network.
    monkeypatch.setitem(sys.modules, "wandb", again := Wandb(fails_from=4))
    again.step = 3
    capfd.readouterr()
    assert tree.train("--wandb", "--resume", "auto") == 0
    assert (again.given["id"], again.given["resume"]) == (service.given["id"], "allow")
    assert [step for step, _ in again.rows] == [3]
    assert capfd.readouterr().out.count("metrics do not reach wandb: no network") == 1
    monkeypatch.setitem(sys.modules, "wandb", other := Wandb())
    assert tree.train("--wandb") == 0
    assert other.given["id"] != service.given["id"]


def test_wandb_that_is_not_installed_is_an_error(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        tree.train("--wandb")
    assert "error: --wandb needs the package wandb: pip install wandb" in capsys.readouterr().err


def test_accumulate_is_the_command_lines(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    """Tests that the exporter gets the number of micro-batches, and that the archive has it."""
    assert tree.train("--accumulate", "2") == 0
    assert archive_metadata(tree.folder / "out" / "step.pt")["accumulate"] == 2
    capfd.readouterr()
    assert tree.train("--accumulate", "2", "--dry-run") == 0
    assert "--accumulate 2 -o" in capfd.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    "flags, device, expected",
    (
        ([], "cpu", "out/trace.json"),
        ([], "cuda", None),
        (["--nproc", "9"], "cpu", None),
        (["--no-report"], "cpu", None),
        (["--no-report", "--trace", "own.json"], "cpu", "own.json"),
    ),
)
def test_the_report_has_a_trace_where_the_plans_device_can_be_timed(
    flags: list[str], device: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests that the plan decides, which knows its device however it came by it."""
    monkeypatch.setattr(stages, "plan_facts", lambda tool, plan: {"device": device})
    args = parse(["--out", "out", *flags, "step.py"])
    found = trace_file(args, {"fsdp-translate": Path("none")})
    assert found == (None if expected is None else Path(expected))


@pytest.mark.provokes("FSDP-E0808")
def test_what_runs_behind_the_training_may_fail(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text("def after_training(argv, weights): raise ValueError('no')\n")
    save_file({"w": torch.zeros(1)}, tmp_path / "weights.safetensors")
    with pytest.raises(stages.StageError, match="after_training of step.py: ValueError: no"):
        after_training(tmp_path / "step.py", [], tmp_path / "weights.safetensors")

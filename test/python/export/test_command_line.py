"""Tests that the export command loads step files, writes its files, and fails in one line."""

import os
import pathlib
import subprocess
import sys

import pytest

from fsdp_mlir.export import main
from fsdp_mlir.driver.sources import record_sources
from fsdp_mlir.step.training_step import load_training_step

STEP = """
import argparse
import torch
from torch import nn
from fsdp_mlir import TrainingStep
{imports}

def training_step(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=8)
    flags = parser.parse_args(argv)
    model = nn.Linear(flags.width, 3)
    x = torch.randn(9, flags.width)
    {body}
    return TrainingStep(
        model, lambda model, x: model(x).mean(), torch.optim.SGD(model.parameters(), 0.1),
        inputs={{"x": x[:4]}}, data={{"x": x}}, eval_data={{"x": x}},
    )
"""


@pytest.fixture
def step_file(tmp_path: pathlib.Path) -> pathlib.Path:
    return write(tmp_path)


def write(folder: pathlib.Path, imports: str = "", body: str = "") -> pathlib.Path:
    path = folder / "a_step.py"
    path.write_text(STEP.format(imports=imports, body=body))
    return path


def test_all_files_are_written(step_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert main(["-o", str(tmp_path / "s.pt"), str(step_file)]) == 0
    names = {path.name for path in tmp_path.iterdir() if path.name.startswith((".", "s."))}
    assert names == {"s.pt", "s.safetensors", "s.data.safetensors", "s.eval.safetensors"}


def test_without_weights_the_archive_alone(step_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert main(["-o", str(tmp_path / "s.pt"), "--no-weights", str(step_file)]) == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"s.pt"}
    assert not (tmp_path / "s.safetensors").exists()


def test_further_flags_are_the_step_files(step_file: pathlib.Path) -> None:
    assert load_training_step(step_file, ["--width", "5"]).model.in_features == 5


def test_a_step_file_is_a_script(step_file: pathlib.Path, capsys: pytest.CaptureFixture) -> None:
    """Tests that a parser which is given no flags reads the step file's, and errs in its name."""
    before = list(sys.argv)
    step_file.write_text(step_file.read_text().replace("parse_args(argv)", "parse_args()"))
    assert load_training_step(step_file, ["--width", "5"]).model.in_features == 5
    with pytest.raises(SystemExit):
        load_training_step(step_file, ["--widths", "5"])
    assert f"{step_file.name}: error: unrecognized arguments" in capsys.readouterr().err
    assert sys.argv == before


def test_a_step_file_imports_its_neighbours(tmp_path: pathlib.Path) -> None:
    (tmp_path / "neighbour_of_step.py").write_text("WIDTH = 6\n")
    body = "model = nn.Linear(neighbour_of_step.WIDTH, 3); x = torch.randn(9, 6)"
    path = write(tmp_path, "import neighbour_of_step", body)
    assert load_training_step(path).model.in_features == 6


@pytest.mark.parametrize(
    "text, message",
    [
        ("x = 1\n", "defines no function training_step"),
        ("def training_step():\n    return 3\n", "training_step does not take one argument"),
        ("def training_step(argv):\n    return 3\n", "training_step returned int"),
        ("def training_step(argv):\n    return 1 / 0\n", "bad.py:2: ZeroDivisionError: "),
        (
            "def training_step(argv):\n    raise RuntimeError('Found no NVIDIA driver on it')\n",
            "bad.py:2: PyTorch finds no GPU, and a step is captured on the CPU",
        ),
        (
            "def training_step(argv):\n    raise SystemExit(3)\n",
            "bad.py:2: the step file ends the program here",
        ),
        (
            "import fsdp_mlir\n\n\ndef training_step(argv):\n"
            "    return fsdp_mlir.TrainingStep(None, len, None, {})\n",
            "bad.py:5: model is NoneType; give a torch.nn.Module",
        ),
        ("import nothing_of_this_name\n", "bad.py:1: ModuleNotFoundError: "),
        ("def training_step(argv)\n", "bad.py:1: SyntaxError: "),
    ],
)
def test_a_step_file_that_is_none(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture, text: str, message: str
) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    assert main(["-o", str(tmp_path / "s.pt"), str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and message in line
    assert not (tmp_path / "s.pt").exists()


@pytest.mark.provokes("FSDP-E0201")
def test_a_missing_step_file(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["-o", str(tmp_path / "s.pt"), "missing.py"]) == 1
    assert capsys.readouterr().err == "error: missing.py: no such step file [FSDP-E0201]\n"


@pytest.mark.provokes("FSDP-E0101")
def test_an_archive_is_called_pt(step_file: pathlib.Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["-o", "step.bin", str(step_file)]) == 1
    assert (
        capsys.readouterr().err
        == "error: step.bin: the archive's name must end in .pt [FSDP-E0101]\n"
    )


def test_an_archive_needs_a_place(
    step_file: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "folder.pt").mkdir()
    for name, message in (
        ("folder.pt", "folder.pt is a folder; name the archive in it [FSDP-E0005]"),
        ("nowhere/step.pt", f"there is no folder {tmp_path}/nowhere to write it into [FSDP-E0005]"),
        ("step.py/step.pt", f"there is no folder {tmp_path}/step.py to write it into [FSDP-E0005]"),
    ):
        assert main(["-o", str(tmp_path / name), str(step_file)]) == 1
        error = capsys.readouterr().err
        assert message in error and error.count("error:") == 1


def test_what_is_missing_may_be_misspelt(
    step_file: pathlib.Path, capsys: pytest.CaptureFixture
) -> None:
    for argv, message in (
        (["--outptu", "step.pt", str(step_file)], "no flag --outptu, the nearest is --output ["),
        (["-o", "step.pt"], "required: STEP.py ["),
    ):
        with pytest.raises(SystemExit):
            main(argv)
        assert message in capsys.readouterr().err


def test_an_error_of_this_package_keeps_its_own_kind(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
) -> None:
    path = write(tmp_path, body="import fsdp_mlir; fsdp_mlir.TrainingStep(epoch=1)")
    assert main(["-o", str(tmp_path / "s.pt"), str(path)]) == 1
    error = capsys.readouterr().err
    assert "TrainingStep has no option 'epoch'; the nearest is 'epochs'" in error
    assert error.count("[FSDP-") == 1 and error.endswith("[FSDP-E0202]\n")


def test_an_error_without_a_line_has_that_of_the_training_step(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
) -> None:
    """Tests that what no line of the step file raises, as an optimizer of PyTorch's, has a
    place."""
    step = tmp_path / "lbfgs_step.py"
    step.write_text(
        "import torch\n"
        "from fsdp_mlir import TrainingStep\n"
        "def training_step(argv):\n"
        "    model = torch.nn.Linear(8, 3)\n"
        "    optimizer = torch.optim.LBFGS(model.parameters())\n"
        "    loss = lambda model, x: model(x).mean()\n"
        "    return TrainingStep(model, loss, optimizer, {'x': torch.ones(2, 8)})\n"
    )
    assert main(["-o", str(tmp_path / "step.pt"), str(step)]) == 1
    assert "error: lbfgs_step.py:7: the step of LBFGS takes closure" in capsys.readouterr().err


def test_traceback_is_shown_on_request(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
) -> None:
    path = write(tmp_path, body="raise ValueError('no')")
    assert main(["-o", str(tmp_path / "s.pt"), "--traceback", str(path)]) == 1
    error = capsys.readouterr().err
    assert "Traceback" in error and error.endswith(": ValueError: no [FSDP-E0209]\n")


def test_it_runs_as_a_module(tmp_path: pathlib.Path, step_file: pathlib.Path) -> None:
    command = [sys.executable, "-m", "fsdp_mlir.export", "-o", str(tmp_path / "s.pt")]
    package = pathlib.Path(__file__).resolve().parents[3] / "python"
    done = subprocess.run(
        [*command, str(step_file), "--width", "x"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(package), "OMP_NUM_THREADS": "1", "PATH": ""},
    )
    assert done.returncode == 2 and "--width: invalid int value" in done.stderr
    assert not (tmp_path / "s.pt").exists()


@pytest.mark.parametrize(
    "imports, body, message",
    [
        (
            "import torch.distributed as dist",
            "dist.init_process_group('gloo')",
            "init_process_group is of a process group, which a step file does not have; leave",
        ),
        (
            "from torch.distributed.device_mesh import init_device_mesh",
            "init_device_mesh('cpu', (2,))",
            "init_device_mesh is of a process group, which a step file does not have; take "
            "init_device_mesh from fsdp_mlir",
        ),
        (
            "from torch.distributed.fsdp import fully_shard",
            "fully_shard(model)",
            "fully_shard is of a process group, which a step file does not have; take fully_shard",
        ),
        ("", "nn.parallel.DistributedDataParallel(model)", "leave the wrapper out"),
        ("import torch.distributed as dist", "dist.get_rank()", "read the environment's RANK"),
        ("", "raise ValueError('no process group')", "ValueError: no process group"),
    ],
)
def test_what_is_left_of_process_groups_is_named(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    imports: str,
    body: str,
    message: str,
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    path = write(tmp_path, imports, body)
    assert main(["-o", str(tmp_path / "s.pt"), str(path)]) == 1
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("error: a_step.py:") and message in error


def test_what_a_step_file_reads_is_recorded(tmp_path: pathlib.Path) -> None:
    (tmp_path / "recorded_neighbour.py").write_text("WIDTH = 6\n")
    (tmp_path / "corpus.txt").write_text("text")
    (tmp_path / "by_flag.bin").write_text("data")
    body = f"open({str(tmp_path / 'corpus.txt')!r}).read(); open({str(tmp_path / 'o')!r}, 'w')"
    path = write(tmp_path, "import recorded_neighbour", body)
    with record_sources([f"--data={tmp_path / 'by_flag.bin'}"]) as sources:
        load_training_step(path)
    assert {p.name for p in sources.files} == {
        "a_step.py",
        "recorded_neighbour.py",
        "corpus.txt",
        "by_flag.bin",
    }
    assert "recorded_neighbour.py" in {p.name for p in sources.modules}
    assert not any("site-packages" in str(p) for p in sources.files | sources.modules)


def test_variables_that_a_step_files_code_reads_are_recorded(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they were before the file set them; what libraries read is theirs."""
    monkeypatch.setenv("STEP_WIDTH", "6")
    (tmp_path / "recorded_depth.py").write_text("import os\n'STEP_DEPTH' in os.environ\n")
    body = (
        "os.environ['STEP_WIDTH'] = '7'; os.getenv('STEP_WIDTH'); os.environ.get('STEP_SEED', 0); "
    )
    body += "import shutil; shutil.get_terminal_size()"
    path = write(tmp_path, "import os, recorded_depth", body)
    with record_sources() as sources:
        load_training_step(path)
    assert sources.variables == {"STEP_WIDTH": "6", "STEP_DEPTH": None, "STEP_SEED": None}


def test_nothing_is_recorded_outside(tmp_path: pathlib.Path) -> None:
    (tmp_path / "late.txt").write_text("")
    with record_sources() as sources:
        pass
    (tmp_path / "late.txt").read_text()
    os.getenv("STEP_WIDTH")
    assert sources.files == set() and not sources.variables

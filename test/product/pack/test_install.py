"""Tests that an installed package works by itself, beside PyTorch and in an empty folder."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]


# pip compiles all programs once more, into build/pip.
PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", ROOT, "--target"]
CMAKE = ["cmake", "--install", ROOT / "build", "--prefix"]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(CMAKE, id="cmake"),
        pytest.param(PIP, id="pip", marks=pytest.mark.long),
    ],
)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder of packages: this one as it is installed, and a link to PyTorch and its libraries."""
    site = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": "2"}
    ran = subprocess.run([*request.param, site], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    packages = pathlib.Path(torch.__file__).parents[1]
    for name in ("torch", "nvidia"):
        if (packages / name).exists():
            (site / name).symlink_to(packages / name)
    return site


@pytest.mark.quick
def test_programs_find_the_pytorch_beside_them(site: pathlib.Path) -> None:
    for program in ("fsdp-run", "libfsdp_archive.so"):
        path = site / "fsdp_mlir" / "bin" / program
        found = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
        torch_line = next(line for line in found.splitlines() if "libtorch_cpu.so" in line)
        assert str(path.parent) in torch_line, torch_line


def test_an_example_trains_from_an_empty_folder(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shutil.copy(ROOT / "python" / "examples" / "linear_classifier.py", tmp_path / "step.py")
    environment = {**os.environ, "PYTHONPATH": str(site)}
    environment.pop("FSDP_MLIR_BIN", None)
    options = ["--nproc", "2", "--steps", "2", "--no-cache", "--no-report", "--verbose"]
    ran = subprocess.run(
        [sys.executable, "-m", "fsdp_mlir.train", *options, "step.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert str(site / "fsdp_mlir" / "bin" / "fsdp-run") in ran.stdout + ran.stderr
    assert (tmp_path / "out" / "step" / "trained.safetensors").exists()

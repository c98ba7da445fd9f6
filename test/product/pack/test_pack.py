"""Tests that what `tools/dev pack-runtime` packs configures without the packages of this machine."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def run(*command: object, cwd: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("pack")
    (folder / "a.plan").write_bytes(b"a plan")
    packed = run(
        ROOT / "tools" / "dev", "pack-runtime", folder / "out.tar.gz", folder / "a.plan", cwd=ROOT
    )
    assert packed.returncode == 0, packed.stderr
    assert run("tar", "xzf", "out.tar.gz", cwd=folder).returncode == 0
    return folder / "fsdp-mlir"


@pytest.mark.quick
def test_a_packed_runtime_has_the_given_files(unpacked: pathlib.Path) -> None:
    assert (unpacked / "given" / "a.plan").read_bytes() == b"a plan"


def test_the_runtime_configures_from_its_own_headers(unpacked: pathlib.Path) -> None:
    configured = run(
        "cmake", "-S.", "-Bbuild", "-DFSDP_BUILD_COMPILER=OFF", f"-DFSDP_PYTHON={sys.executable}",
        cwd=unpacked,
    )  # fmt: skip
    assert configured.returncode == 0, configured.stderr
    cache = dict(
        line.split("=", 1)
        for line in (unpacked / "build" / "CMakeCache.txt").read_text().splitlines()
        if "=" in line and not line.startswith(("#", "//"))
    )
    for found in (
        "nlohmann_json_DIR:PATH",
        "CLI11_DIR:PATH",
        "FLATBUFFERS_INCLUDE_DIR:PATH",
        "TOMLPLUSPLUS_INCLUDE_DIR:PATH",
        "FSDP_SODIUM_HEADERS:PATH",
        "FSDP_SODIUM:FILEPATH",
        "XXHASH_HEADERS:PATH",
        "XXHASH:FILEPATH",
    ):
        assert pathlib.Path(cache[found]).is_relative_to(unpacked / "deps"), found
    names = {name.split(":")[0] for name in cache}
    assert names.isdisjoint({"FLATC", "GTest_DIR", "MLIR_DIR", "LLVM_DIR"})


def test_a_file_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    packed = run(ROOT / "tools" / "dev", "pack-runtime", tmp_path / "out.tar.gz", "none", cwd=ROOT)
    assert packed.returncode != 0
    assert packed.stderr == "tools/dev: error: there is no file 'none'\n"

"""Tests the script that a person with a GPU runs: plans for CPUs stand for those for GPUs, and
small programs for fsdp-run."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from gpu import cases, machine, prepare, rows, run, tensors
from gpu.cases import CASES, STEPS, Files
from gpu.lab import Lab, Run
from gpu.rows import FAIL, PASS, SKIP
from support import chain

GPU = {"gpu": "NVIDIA Test", "driver": "1.0", "memory_mib": 8, "torch": "2.11.0"}


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "describe", lambda: dict(GPU))


PREPARED = ("mlp", "mlp-scaler")


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The plans of two cases."""
    folder = tmp_path_factory.mktemp("plans")
    assert prepare.main(["--out", str(folder), "--cases", *PREPARED]) == 0
    kinds = ("cpu.plan", "cuda.plan", "data.safetensors", "safetensors")
    names = {f"{name}.{kind}" for name in PREPARED for kind in kinds}
    assert {path.name for path in folder.iterdir()} == names | {"refused.json"}
    return folder


def verdicts(
    plans: pathlib.Path, out: pathlib.Path, programs: pathlib.Path, *words: str
) -> dict[str, str]:
    """Of a run of some rows with these cases alone; nothing fails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "CASES", {name: CASES[name] for name in PREPARED})
        patch.setattr(rows, "CAPTURED", {"mlp": True, "mlp-scaler": True})
        patch.setattr(rows, "TRACED", (("mlp", ("--cuda-graph",)),))
        resumed = (("mlp", ("--cuda-graph",), "mlp"), ("mlp-scaler", (), "mlp-scaler"))
        patch.setattr(rows, "RESUMED", resumed)
        patch.setattr(rows, "MOVED", "mlp")
        patch.setattr(rows, "LOOPS", (("mlp", 2, ()), ("mlp", 2, ("--cuda-graph",))))
        folders = ["--bin", str(programs), "--plans", str(plans), "--out", str(out)]
        assert run.main([*folders, *words]) == 0
    (path,) = out.glob("*.json")
    found = json.loads(path.read_text())["rows"]
    assert "fsdp-run" in (out / "raw.log").read_text()
    return {name: row["verdict"] for name, row in found.items()}


def test_what_is_prepared_runs(plans: pathlib.Path, tmp_path: pathlib.Path) -> None:
    if machine.describe()["gpu"]:
        pytest.skip("a GPU runs the rows themselves")
    words = ("--device", "cpu", "--only", "kernels", "nccl")
    found = verdicts(plans, tmp_path, chain.binary("fsdp-run").parent, *words)
    assert found == {"kernels": PASS, "nccl": SKIP}


def test_an_imitated_gpu_passes(
    plans: pathlib.Path, tmp_path: pathlib.Path, on_a_gpu: None
) -> None:
    names = ("kernels", "precision", "graph", "trace", "checkpoints", "loop")
    found = verdicts(plans, tmp_path, chain.imitated_gpus(), "--only", *names)
    assert found == dict.fromkeys(names, PASS)


@pytest.mark.quick
def test_the_tables_agree() -> None:
    assert {case.step for case in CASES.values()} == set(STEPS)
    assert {case.row for case in CASES.values()} <= set(rows.ROWS)
    resumed = {name for first, _, then in rows.RESUMED for name in (first, then)}
    assert {*rows.CAPTURED, *resumed, rows.MOVED} <= set(CASES)
    assert all((cases.ROOT / step.file).exists() for step in STEPS.values())


def program(folder: pathlib.Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def lab(tmp_path: pathlib.Path) -> Lab:
    """Plans that are empty files, and no programs."""
    files = Files(tmp_path / "plans")
    files.folder.mkdir()
    for case in CASES.values():
        for device in ("cpu", "cuda"):
            files.plan(case, device).touch()
    return Lab(tmp_path / "bin", files, tmp_path / "out")


def trained(folder: pathlib.Path, losses: list[float], **saved: torch.Tensor) -> Run:
    path = folder / "saved.safetensors"
    save_file(saved, path)
    return Run([{"loss": loss} for loss in losses], {}, path, "")


@pytest.mark.parametrize(
    "loss, weight, verdict",
    [
        (2.0, 1.0, PASS),
        (2.0 + 1e-5, 1.0 + 5e-5, PASS),
        (2.0 + 4e-5, 1.0, FAIL),
        (2.0, 1.001, FAIL),
        (float("nan"), 1.0, FAIL),
        (2.0, float("nan"), FAIL),
    ],
)
def test_parity_is_relative(
    loss: float, weight: float, verdict: str, tmp_path: pathlib.Path
) -> None:
    case = CASES["mlp"]
    expected = trained(tmp_path, [2.0] * case.steps, w=torch.ones(3), key_bias=torch.ones(1))
    (tmp_path / "found").mkdir()
    losses = [2.0] * (case.steps - 1) + [loss]
    found = trained(
        tmp_path / "found", losses, w=torch.tensor([1, weight, 1]), key_bias=torch.ones(1)
    )
    assert rows.compare(case, found, expected).verdict == verdict


def test_a_run_that_ended_early_is_no_parity(tmp_path: pathlib.Path) -> None:
    found = trained(tmp_path, [2.0])
    assert rows.compare(CASES["mlp"], found, found).detail == "1 losses in 20 steps"


@pytest.mark.parametrize(
    "loss, weight, detail",
    [
        (2.0, -0.0, "1 tensors differ: w"),
        (2.0, 0.0, "1 losses and 1 tensors are equal bit for bit"),
        (2.5, 0.0, "losses differ, first in step 1"),
    ],
)
def test_graphs_have_the_same_bits(
    loss: float, weight: float, detail: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "found").mkdir()
    expected = trained(tmp_path, [2.0], w=torch.zeros(()))
    found = trained(tmp_path / "found", [loss], w=torch.tensor(weight))
    assert rows.same_bits("mlp", found, expected).detail == detail


def test_tensors_are_read_as_safetensors_reads_them(tmp_path: pathlib.Path) -> None:
    written = {
        "bf16": torch.randn(3, 5).bfloat16(),
        "count": torch.tensor(7),
        "mask": torch.tensor([True, False]),
        "none": torch.empty(0, 4),
    }
    save_file(written, tmp_path / "t.safetensors", {"an": "alias"})
    read = tensors.read(tmp_path / "t.safetensors")
    assert read.keys() == written.keys()
    assert all(torch.equal(read[name], value) for name, value in written.items())
    assert all(read[name].dtype == value.dtype for name, value in written.items())


def test_errors_must_be_clear(lab: Lab) -> None:
    """A program that says what some of them need."""
    said = 'echo "error: the plan is for GPUs, and this machine shows none; drop device=cuda"'
    program(lab.programs, "fsdp-run", f"{said}; exit 1")
    found = {check.name: check.verdict for check in rows.errors(lab)}
    assert found.pop("no GPU is visible") == PASS
    assert set(found.values()) == {FAIL}
    program(lab.programs, "fsdp-run", said)
    assert {check.verdict for check in rows.errors(lab)} == {FAIL}


def report(*results: str) -> str:
    tests = [{"name": f"T{i}", "status": "RUN", "result": r} for i, r in enumerate(results)]
    return json.dumps({"testsuites": [{"name": "Real/CudaDevice", "testsuite": tests}]})


def test_tests_that_were_skipped_are_no_conformance(lab: Lab) -> None:
    def verdicts(text: str) -> set[str]:
        for name in rows.TESTS:
            program(lab.programs, name, f"echo '{text}' > ${{1#--gtest_output=json:}}")
        return {check.verdict for check in rows.conformance(lab)}

    assert verdicts(report("SKIPPED", "SKIPPED")) == {SKIP}
    assert verdicts(report("SKIPPED", "COMPLETED")) == {PASS}
    assert verdicts(report("COMPLETED").replace("Real/", "Imitated/")) == {SKIP}
    for name in rows.TESTS:
        program(lab.programs, name, "echo Segmentation fault; exit 139")
        (lab.scratch / f"{name}.json").unlink()
    assert {check.verdict for check in rows.conformance(lab)} == {FAIL}


@pytest.mark.parametrize("captured", (True, False))
def test_what_is_captured_is_what_can_be(
    captured: bool, lab: Lab, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fsdp-run says of each program that it does not capture why."""
    made = trained(tmp_path, [2.0], w=torch.ones(1))
    if not captured:
        made.output = "note: program 'step' runs without a CUDA graph: it is too long\n"
    monkeypatch.setattr(Lab, "run", lambda *_, **__: made)
    found = {check.name: (check.verdict, check.detail) for check in rows.graph(lab)}
    assert {verdict for verdict, _ in found.values()} == {PASS, FAIL}
    assert all((v == PASS) == (rows.CAPTURED[name] == captured) for name, (v, _) in found.items())
    assert found["mlp"][1].endswith("it is too long") != captured


def test_a_plan_that_the_compiler_refused_fails(lab: Lab) -> None:
    lab.files.refusals.write_text(json.dumps({"mlp.cuda.plan": "no such kernel"}))
    program(lab.programs, "fsdp-run", "exit 0")
    again = Lab(lab.programs, lab.files, lab.scratch.parent)
    check = next(iter(rows.of_cases("kernels")(again)))
    assert (check.verdict, check.detail) == (FAIL, "the compiler refused it: no such kernel")


def test_what_hangs_is_killed(lab: Lab) -> None:
    program(lab.programs, "fsdp-run", "sleep 60")
    ended = lab.command([lab.program("fsdp-run")], timeout=0.2)
    assert (ended.code, ended.error) == (124, "error: killed after 0 s")


@pytest.fixture
def words(tmp_path: pathlib.Path) -> list[str]:
    folder = tmp_path / "bin"
    program(folder, "fsdp-run", 'echo "error: no"; exit 1')
    return ["--bin", str(folder), "--plans", str(tmp_path), "--out", str(tmp_path / "out")]


def kept(tmp_path: pathlib.Path) -> dict[str, Any]:
    return json.loads((tmp_path / "out" / "nvidia-test.json").read_text())


def test_rows_add_up_over_several_runs(
    words: list[str], tmp_path: pathlib.Path, on_a_gpu: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main([*words, "--only", "nccl"]) == 1
    assert "FAIL  nccl" in capsys.readouterr().out
    assert run.main([*words, "--only", "graph", "--time-limit", "0"]) == 0
    assert "SKIP  graph (0 s): no time left" in capsys.readouterr().out
    found = kept(tmp_path)
    assert found["gpu"] == GPU["gpu"]
    assert {name: row["verdict"] for name, row in found["rows"].items()} == {
        "nccl": FAIL,
        "graph": SKIP,
    }


def test_rows_that_run_together_train_a_case_once(
    plans: pathlib.Path, tmp_path: pathlib.Path, on_a_gpu: None
) -> None:
    words = ("--jobs", "2", "--only", "kernels", "graph")
    assert verdicts(plans, tmp_path, chain.imitated_gpus(), *words) == {
        "kernels": PASS,
        "graph": PASS,
    }
    commands = [w for w in (tmp_path / "raw.log").read_text().splitlines() if w.startswith("$ ")]
    assert len(commands) == len(set(commands)) > 2


def test_rows_that_measure_are_alone() -> None:
    running: list[str] = []

    def row(name: str) -> dict[str, Any]:
        running.append(name)
        return {}

    names = ["bench", "kernels", "ranks"]
    ended = [name for name, _ in run.run_rows(names, 3, row)]
    assert running[-1] == ended[-1] == "bench" and set(ended) == set(names)


def test_a_build_that_fails_is_said(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path / "bin", "cmake", 'echo "CMake Error: no compiler"; exit 1')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    assert run.main(["--out", str(tmp_path / "out"), "--build", str(tmp_path / "build")]) == 1
    assert "FAIL  build: the build failed: CMake Error: no compiler" in capsys.readouterr().out


def test_the_flag_list_names_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(rows.ROWS)

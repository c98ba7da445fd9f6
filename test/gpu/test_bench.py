"""Tests the bench for GPUs: on the CPU, where a tiny model is timed, and on figures."""

from __future__ import annotations

import json
import os
import pathlib

import pytest

from bench import goals
from gpu import bench, prepare, trace
from gpu.cases import CASES, STEPS, TIMED
from support import chain


def test_everyone_trains_the_same_model_on_the_cpu(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plans, out = tmp_path / "plans", tmp_path / "out"
    words = ["--out", str(plans), "--cases", "timed-tiny", "--devices", "cpu"]
    assert prepare.main(words) == 0
    words = ["--device", "cpu", "--models", "tiny", "--rounds", "1", "--steps", "2"]
    words += ["--bin", str(chain.binary("fsdp-run").parent)]
    assert bench.main([*words, "--plans", str(plans), "--out", str(out)]) == 0
    found = json.loads((out / "bench.json").read_text())["models"]["tiny"]
    assert found["headline"] == "streams"
    assert set(found["contestants"]) == {"fsdp2", "streams"}
    assert all(row["step_ms"] > 0 for row in found["contestants"].values())
    # What a CPU takes says nothing about the goals.
    assert "goals" not in capsys.readouterr().out


def test_a_plan_that_is_not_there(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--device", "cpu", "--models", "tiny", "--contestants", "streams"]
    words += ["--bin", str(tmp_path), "--plans", str(tmp_path), "--out", str(tmp_path / "out")]
    assert bench.main(words) == 1
    assert "streams takes no part: there is no plan for cpu" in capsys.readouterr().out


def test_every_model_has_its_plans() -> None:
    for size in ("tiny", *TIMED):
        flags = bench.model(size, "cuda").flags
        assert flags[:2] == ("--size", size)
        assert set(flags) < set(STEPS[f"timed-{size}"].flags)
        for contestant in bench.CONTESTANTS.values():
            if contestant.pipeline is None or (
                contestant.ranks == 2 and size not in bench.WITH_TWO
            ):
                continue
            assert CASES[f"timed-{size}{contestant.pipeline}"].ranks == contestant.ranks
    assert [bench.model(size, "cuda").goals["fsdp2"] for size in TIMED] == [0.9, 1.0, 1.0, 1.0, 1.0]


def test_goals() -> None:
    model = {
        "goals": {"fsdp2": 0.9},
        "headline": "cuda-graph",
        "contestants": {
            "fsdp2": {"step_ms": 20.0, "peak_bytes": 1000},
            "cuda-graph": {
                "step_ms": 19.0,
                "peak_bytes": 800,
                "launch_ms": 0.0625,
                "idle_share": 0.015,
            },
        },
    }
    found = [(row.shown, row.verdict) for row in goals.rows(model, bench.GOALS)]
    assert found == [("0.95", "NOT met"), ("0.80", "met"), ("62", "met"), ("1.50", "met")]
    del model["contestants"]["cuda-graph"]["idle_share"]
    assert len(goals.rows(model, bench.GOALS)) == 3


def traced(path: pathlib.Path, *entries: tuple[int, int]) -> list[trace.Entry]:
    path.write_text("".join(f"{begin} {end} void gemm(a, b)\n" for begin, end in entries))
    return trace.read(path)


def test_idle_is_what_no_kernel_covers(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "FIRST", 0)
    monkeypatch.setattr(trace, "LAST", 1)
    path = tmp_path / "t"
    # Out of order, one beside another, one inside another.
    entries = traced(path, (150, 200), (100, 120), (110, 130), (152, 160))
    assert trace.idle_share(entries) == 0.2
    assert trace.idle_share(traced(path, (0, 10), (10, 20))) == 0
    with pytest.raises(ValueError, match="the trace is empty"):
        traced(path)


def test_kernels_are_by_their_share() -> None:
    entries = [trace.Entry(0, 10, "a"), trace.Entry(10, 40, "b"), trace.Entry(40, 90, "a")]
    assert trace.kernels(entries) == {"a": pytest.approx(2 / 3), "b": pytest.approx(1 / 3)}


def test_the_start_is_not_counted(tmp_path: pathlib.Path) -> None:
    steady = [(1000 + 10 * i, 1009 + 10 * i) for i in range(50)]
    start = ((20 * i, 20 * i + 1) for i in range(50))
    assert trace.idle_share(traced(tmp_path / "t", *start, *steady)) == pytest.approx(0.1, abs=0.01)


def test_only_processes_inside_are_traced(tmp_path: pathlib.Path) -> None:
    with trace.traced(tmp_path / "gpu_trace.so", tmp_path / "t"):
        assert os.environ["CUDA_INJECTION64_PATH"].endswith("gpu_trace.so")
    assert "CUDA_INJECTION64_PATH" not in os.environ


def test_the_archive_has_room() -> None:
    """Weights that ranks draw are in no file: the large models are plans alone."""
    assert all("meta" in STEPS[f"timed-{size}"].flags for size in TIMED)
    assert "meta" in STEPS["too-large"].flags

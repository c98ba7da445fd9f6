"""Tests that TensorBoard's own reader, which checks each record's checksums, finds what the metrics
have, and that operations are counted."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from support import chain, step_files

#: By field: its tag and the factor to the tag's unit, where it is not the field's own name.
TAGS = {
    "loss": ("loss_metrics/global_avg_loss", 1),
    "flops_per_s": ("tflops", 1e-12),
    "hfu": ("hfu(%)", 100),
    "mfu": ("mfu(%)", 100),
    "step_ms": ("time_metrics/end_to_end(s)", 1e-3),
    "data_wait_ms": ("time_metrics/data_loading(s)", 1e-3),
    "exposed_comm_ms": ("time_metrics/exposed_communication(s)", 1e-3),
    "memory_bytes": ("memory/planned(GiB)", 2**-30),
    "memory_peak_bytes": ("memory/max_resident(GiB)", 2**-30),
}


BLOCKS = step_files.PARITY / "blocks.py"
LANGUAGE_MODEL = step_files.SMALL


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> chain.Compiled:
    """A model of four units, whose steps have two micro-batches."""
    folder = tmp_path_factory.mktemp("blocks")
    flags = ("--accumulate", "2")
    chain.export(BLOCKS, folder / "step.pt", flags)
    return chain.lower(BLOCKS, folder / "step.pt", folder, flags, "mesh=2 units=class:Block")


def run(compiled: chain.Compiled, folder: pathlib.Path, *flags: Any, check: bool = True) -> Any:
    command = chain.run_arguments(compiled) + ["--nproc", "2", "--threads", *map(str, flags)]
    command += ["--metrics", str(folder / "metrics.jsonl")]
    return chain.command(command, check=check)


def rows_of(folder: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.quick
def test_a_run_that_resumes_has_each_step_once(
    compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    events, checkpoints = tmp_path / "new" / "events", tmp_path / "checkpoints"
    flags = ("--tensorboard", events, "--checkpoint-dir", checkpoints)
    run(compiled, tmp_path, *flags, "--steps", 4)
    # From a checkpoint in the middle, as after a kill.
    run(
        compiled,
        tmp_path,
        "--tensorboard",
        events,
        "--steps",
        2,
        "--checkpoint-dir",
        tmp_path / "2",
    )
    run(compiled, tmp_path, "--tensorboard", events, "--steps", 6, "--resume", tmp_path / "2")
    reader = EventAccumulator(str(events))
    reader.Reload()
    rows = rows_of(tmp_path)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    expected: dict[str, list[tuple[int, np.float32]]] = {}
    for row in rows:
        for name, value in row.items():
            if name in ("step", "epoch") or not isinstance(value, (int, float)):
                continue
            tag, factor = TAGS.get(name, (name, 1))
            expected.setdefault(tag, []).append((row["step"], np.float32(value * factor)))
    assert sorted(reader.Tags()["scalars"]) == sorted(expected)
    for tag, values in expected.items():
        assert [(e.step, np.float32(e.value)) for e in reader.Scalars(tag)] == values, tag


def test_tokens_are_those_of_one_rank(tmp_path: pathlib.Path) -> None:
    """As torchtitan's, whose tag it is."""
    chain.export(LANGUAGE_MODEL, tmp_path / "step.pt", ("--model", "gpt"))
    flags = ("--model", "gpt")
    compiled = chain.lower(LANGUAGE_MODEL, tmp_path / "step.pt", tmp_path, flags, "mesh=2")
    run(compiled, tmp_path, "--tensorboard", tmp_path / "events", "--steps", 1)
    reader = EventAccumulator(str(tmp_path / "events"))
    reader.Reload()
    (event,) = reader.Scalars("throughput(tps)")
    (row,) = rows_of(tmp_path)
    assert event.value == pytest.approx(row["tokens_per_s"] / 2)


def test_who_follows_the_metrics_sees_that_they_begin_anew(
    compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    """As by a file of its own, however soon that is as long as the one before."""
    before = tmp_path / "metrics.jsonl"
    before.write_text("of an earlier run")
    with open(before) as followed:
        run(compiled, tmp_path, "--steps", 1)
        assert followed.read() == "of an earlier run"
    assert [row["step"] for row in rows_of(tmp_path)] == [1]


def test_a_folder_that_cannot_be_made_is_an_error(
    compiled: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "file").touch()
    done = run(
        compiled, tmp_path, "--steps", 1, "--tensorboard", tmp_path / "file" / "events", check=False
    )
    assert done.returncode == 1
    assert f"error: [rank 0] cannot make the folder {tmp_path}/file/events" in done.stderr


def test_operations_are_counted(compiled: chain.Compiled, tmp_path: pathlib.Path) -> None:
    """5 features, 3 classes and 8 samples: a product in forward and one in backward, of 2 x 5 x 3 x
    8 operations each."""
    for flags, peak, source in (
        (("--peak-flops", "1e6"), 1e6, "--peak-flops"),
        ((), 96e9, "cluster local"),
    ):
        summary = tmp_path / "summary.json"
        run(compiled, tmp_path, "--steps", 2, "--summary", summary, *flags)
        written = json.loads(summary.read_text())
        assert written["flops_per_step"] == 480
        assert written["peak_flops_per_s"] == pytest.approx(peak)
        assert written["peak_flops_from"] == source
        for row in rows_of(tmp_path):
            assert row["flops_per_s"] == pytest.approx(480e3 / row["step_ms"])
            assert row["hfu"] == pytest.approx(row["flops_per_s"] / peak)
            assert row["mfu"] == row["hfu"], "nothing is recomputed"


def test_what_backward_computes_again_is_no_work_of_the_model(
    blocks: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    """The plan that recomputes everything does the same model's work as the one that does not."""
    flags = ("--accumulate", "2")
    remat = tmp_path / "remat"
    remat.mkdir()
    chain.export(BLOCKS, remat / "step.pt", flags)
    options = "mesh=2 units=class:Block remat=full"
    recomputing = chain.lower(BLOCKS, remat / "step.pt", remat, flags, options)
    totals = []
    for compiled in (blocks, recomputing):
        summary = tmp_path / "summary.json"
        run(compiled, tmp_path, "--steps", 1, "--summary", summary)
        totals.append(json.loads(summary.read_text()))
    plain, again = totals
    assert again["model_flops_per_step"] == plain["model_flops_per_step"] == plain["flops_per_step"]
    assert again["flops_per_step"] > plain["flops_per_step"]
    [row] = rows_of(tmp_path)
    share = again["model_flops_per_step"] / again["flops_per_step"]
    assert row["mfu"] == pytest.approx(share * row["hfu"], rel=1e-6)


def test_units_add_up_to_the_step(blocks: chain.Compiled, tmp_path: pathlib.Path) -> None:
    summary, events = tmp_path / "summary.json", tmp_path / "events"
    flags = ("--steps", 3, "--log-interval", 2, "--log-grad-norm", "--log-units")
    run(blocks, tmp_path, *flags, "--summary", summary, "--tensorboard", events)
    rows, totals = rows_of(tmp_path), json.loads(summary.read_text())
    runs = {"step": 1, "accumulate": 1}
    moved = sum(runs[c["program"]] * c["bytes_per_step"] for c in totals["collectives"])
    reader = EventAccumulator(str(events))
    reader.Reload()
    assert [row["step"] for row in rows] == [2, 3]
    for row in rows:
        units = row["units"]
        assert {"root", "blocks.0", "blocks.1", "blocks.2"} <= set(units)
        for name, whole in (("comm_bytes", moved), ("exposed_comm_ms", row["exposed_comm_ms"])):
            assert sum(unit[name] for unit in units.values()) == pytest.approx(whole, rel=1e-6)
        squares = sum(unit["grad_norm"] ** 2 for unit in units.values())
        assert squares == pytest.approx(row["grad_norm"] ** 2, rel=1e-9)
    for name in ("grad_norm", "comm_bytes"):
        scalars = reader.Scalars(f"unit_{name}/blocks.1")
        assert [s.value for s in scalars] == pytest.approx(
            [row["units"]["blocks.1"][name] for row in rows]
        )
    (last,) = reader.Scalars("unit_exposed_communication(s)/root")[1:]
    assert last.value == pytest.approx(rows[1]["units"]["root"]["exposed_comm_ms"] / 1e3)


def test_a_step_that_is_traced_has_no_exposed_time_by_unit(
    blocks: chain.Compiled, tmp_path: pathlib.Path
) -> None:
    """Both watch the same streams, and the trace is what was asked for."""
    trace = tmp_path / "trace.json"
    run(blocks, tmp_path, "--steps", 3, "--log-units", "--trace", trace, "--trace-steps", "2")
    has = ["exposed_comm_ms" in row["units"]["blocks.0"] for row in rows_of(tmp_path)]
    assert has == [True, False, True]
    assert json.loads(trace.read_text())["traceEvents"]

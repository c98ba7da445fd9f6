"""Tests that traces keep the rules of their format and say what plan, compiler and metrics say:
when commands run, what is exposed, what memory is in use."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import signal
import subprocess
import time
from typing import Any, Sequence

import pytest

from support import chain
from support.trace import Slice, Trace
from product.traces.conftest import Plans, report

STEPS = 4


def predicted(compiled: chain.Compiled, *flags: str) -> Trace:
    translate = chain.binary("fsdp-translate")
    return Trace(chain.command([translate, "--plan-to-trace", compiled.plan, *flags]).stdout)


def record(
    compiled: chain.Compiled,
    folder: pathlib.Path,
    flags: Sequence[str] = (),
    ranks: int = 2,
    program: str = "fsdp-run",
) -> tuple[Trace, dict[int, dict[str, Any]]]:
    """A trace of a run, and its metrics by step."""
    file, metrics = folder / "trace.json", folder / "metrics.jsonl"
    arguments = chain.run_arguments(compiled, STEPS, program)
    arguments += ["--nproc", str(ranks), "--metrics", str(metrics), "--trace", str(file), *flags]
    chain.command(arguments)
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return Trace.load(file), {row["step"]: row for row in rows}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param("mesh=2", marks=pytest.mark.quick),
        "mesh=2 shard-layout=flat gather=copy schedule=fsdp2",
        "mesh=2 shard-layout=flat gather=map",
        "mesh=2x2 mesh-dims=replicate,shard",
        "mesh=4 reshard-after-forward=2",
        "mesh=2 offload=all",
        "mesh=2 offload=optimizer shard-layout=flat remat=full",
        "mesh=2 streams=1 schedule=naive",
        "mesh=16 cluster=h100x8",
        "mesh=2 device=cuda",
    ],
)
def test_a_prediction_is_the_compilers(options: str, plans: Plans) -> None:
    compiled = plans(options)
    trace = predicted(compiled)
    figures = report(compiled, trace.facts["predicted_on"])
    expected = figures["programs"]["step"]
    (step,) = trace.track(0, "steps")
    assert (step.end - step.begin) / 1e9 == pytest.approx(expected["predicted_seconds"], abs=2e-9)
    assert trace.exposed_ms(0, step) / 1e3 == pytest.approx(expected["exposed_seconds"], abs=1e-7)
    moved = [s for _, s in trace.commands(0) if s.category == "collective"]
    assert sum(s.end - s.begin for s in moved) / 1e9 == pytest.approx(
        expected["communication_seconds"], abs=1e-7
    )
    assert trace.processes == {0: f"predicted on {figures['cluster']}"}
    # Memory: its peak is what no placement could do without.
    assert trace.peak_bytes(0) == expected["live_bytes"]
    if "offload" in options:
        assert trace.peak_bytes(0, "host memory") == expected["host_live_bytes"]


def test_commands_say_what_they_are(plans: Plans) -> None:
    compiled = plans()
    trace = predicted(compiled)
    text = chain.plan_text(compiled.plan)
    # A command goes on where its pieces stand below each other.
    commands = [c.replace("\n", " ") for c in re.split(r"\n  (?=\d\| )", text)[1:]]
    commands[-1] = commands[-1].split("   device arena")[0]
    found = list(trace.commands(0))
    streams = ("compute", "gather", "reduce")
    gathered = reduced = 0
    for stream, command in found:
        line = commands[command.args["command"]]
        assert streams[int(line[0])] == stream
        if "module" in command.args:
            assert line.endswith("// " + command.args["module"])
        if command.category == "collective":
            assert f"unit '{command.args['unit']}'" in line or "unit ''" in line
            assert command.args["bytes"] == 2 * command.args["bytes_sent_per_rank"]
            per_ns = command.args["bytes_sent_per_rank"] / (command.end - command.begin)
            assert command.args["gb_per_s"] == pytest.approx(per_ns, abs=1e-3)
            gathered += "all_gather" in line
            reduced += "reduce_scatter" in line
        elif command.category == "kernel":
            operator = command.args["operator"].removeprefix("aten::").split(".")[0]
            assert command.name.split()[-1] == operator and operator in line
    assert gathered and reduced
    everything = {command.args["command"] for _, command in found}
    timed = [i for i, c in enumerate(commands) if " view" not in c and "event" not in c]
    assert everything <= set(timed)
    names = {command.name for _, command in found}
    assert {"all-gather of blocks.1 (backward)", "blocks.0.qkv addmm"} <= names


def test_arrows_lead_from_collectives_to_those_who_wait(plans: Plans) -> None:
    trace = predicted(plans("mesh=2 cluster=h100x8"))
    arrows = trace.arrows(0)
    for stream, command in trace.commands(0):
        if command.category == "collective":
            assert stream != "compute"
            behind = [right for left, right in arrows if left == command]
            assert behind, f"nobody waits for {command}"
            assert all(right.end >= command.end for right in behind)
    waits = [right for _, right in arrows if right.category == "exposed"]
    assert waits and all(right.args["for"] == left.name for left, right in arrows if right in waits)


def test_ranks_may_have_a_process_each(plans: Plans) -> None:
    trace = predicted(plans(), "--trace-all-ranks", "--trace-cluster=h100x8")
    assert list(trace.processes.values()) == [
        f"rank {rank}, predicted on h100x8" for rank in range(2)
    ]
    assert list(trace.commands(0)) == list(trace.commands(1))


def test_a_step_of_micro_batches_is_all_of_them(plans: Plans, tmp_path: pathlib.Path) -> None:
    compiled = plans("mesh=2", "--accumulate", "3")
    trace, metrics = record(compiled, tmp_path, ["--trace-steps", "2"])
    for process in trace.processes:
        steps = trace.track(process, "steps")
        assert [s.name for s in steps] == [f"step 2, micro-batch {m}" for m in (1, 2, 3)]
        assert [s.args["program"] for s in steps] == ["accumulate", "accumulate", "step"]
    rank0 = trace.process("rank 0")
    exposed = sum(trace.exposed_ms(rank0, s) for s in trace.track(rank0, "steps"))
    assert exposed == pytest.approx(metrics[2]["exposed_comm_ms"], rel=0.01)


def test_a_trace_that_cannot_be_written_ends_no_run(plans: Plans, tmp_path: pathlib.Path) -> None:
    saved = tmp_path / "saved.safetensors"
    flags = ["--trace", "/dev/full", "--save", saved, "--nproc", "2"]
    done = chain.command([*chain.run_arguments(plans(), STEPS), *flags])
    assert (
        "no trace: cannot write '/dev/full': No space left on device" in done.stdout + done.stderr
    )
    assert saved.exists()


@pytest.mark.parametrize(
    "options, flags",
    [
        ("mesh=2", []),
        ("mesh=2", ["--host-streams", "threads"]),
        ("mesh=2", ["--comm", "gloo", "--throttle", "0.01,200"]),
        ("mesh=2 shard-layout=flat gather=map", ["--threads"]),
        ("mesh=2 offload=all", ["--threads", "--host-streams", "threads"]),
        ("mesh=2 streams=1", ["--threads", "--host-streams", "threads"]),
        ("mesh=2 streams=1", ["--threads"]),
    ],
)
def test_a_measurement_is_what_the_metrics_say(
    options: str, flags: list[str], plans: Plans, tmp_path: pathlib.Path
) -> None:
    compiled = plans(options)
    trace, metrics = record(compiled, tmp_path, ["--trace-steps", "2:3", *flags])
    assert [name.split(" on ")[0] for name in trace.processes.values()] == [
        "predicted",
        "rank 0",
        "rank 1",
    ]
    rank0 = trace.process("rank 0")
    steps = trace.track(rank0, "steps")
    assert [s.args["step"] for s in steps] == [2, 3]
    for step in steps:
        row = metrics[step.args["step"]]
        assert trace.exposed_ms(rank0, step) == pytest.approx(row["exposed_comm_ms"], rel=0.01)
        assert (step.end - step.begin) / 1e6 <= row["step_ms"]
    check_commands(trace, steps=2)
    assert trace.facts["clocks"] == [{"offset_us": 0, "uncertainty_us": 0}] * 2
    # What one rank sends the other one receives at the same time.
    if "streams=1" not in options:
        check_gathers_meet(trace)


def check_commands(trace: Trace, steps: int) -> None:
    """What was measured are the commands that were predicted, under the same names and with the
    same facts."""
    expected = {
        s.args["command"]: (stream, s) for stream, s in trace.commands(trace.process("predicted"))
    }
    for process in (trace.process("rank 0"), trace.process("rank 1")):
        measured = list(trace.commands(process))
        assert len(measured) == steps * len(expected)
        for stream, s in measured:
            planned, of = expected[s.args["command"]]
            assert (stream, s.name, s.category) == (planned, of.name, of.category)
            assert facts(s) == facts(of)
        assert trace.peak_bytes(process) == trace.facts["predicted_step"]["live_bytes"]


def facts(command: Slice) -> dict[str, Any]:
    of_a_run = ("gb_per_s", "gflop_per_s")
    return {key: value for key, value in command.args.items() if key not in of_a_run}


def check_gathers_meet(trace: Trace) -> None:
    """No rank is through with a gather before the other one has started it, as far as the trace
    knows their clocks."""
    known = 1e3 * sum(clock["uncertainty_us"] for clock in trace.facts["clocks"])
    both = [
        [s for s in trace.stream(trace.process(rank), "gather") if s.category == "collective"]
        for rank in ("rank 0", "rank 1")
    ]
    assert both[0] and len(both[0]) == len(both[1])
    for a, b in zip(*both):
        assert a.name == b.name and a.begin < b.end + known and b.begin < a.end + known


def test_tracing_changes_no_bit(plans: Plans) -> None:
    import torch

    compiled = plans()
    plain = chain.run_plan(compiled, 2, steps=STEPS)
    file = compiled.plan.parent / "t.json"
    traced = chain.run_plan(compiled, 2, steps=STEPS, extra=["--trace", file])
    assert plain.losses == traced.losses
    assert all(torch.equal(plain.weights[n], traced.weights[n]) for n in plain.weights)
    # Which steps, where nobody says: those behind the first two.
    trace = Trace.load(file)
    assert [s.args["step"] for s in trace.track(trace.process("rank 1"), "steps")] == [3, 4]


@pytest.mark.provokes("FSDP-E0803")
def test_a_run_that_resumes_is_traced_from_there(plans: Plans, tmp_path: pathlib.Path) -> None:
    folder, file = tmp_path / "checkpoints", tmp_path / "t.json"
    start = chain.run_arguments(plans()) + ["--nproc", "2", "--checkpoint-dir", str(folder)]
    chain.command([*start, "--steps", "2"])
    resumed = [*start, "--resume", "auto", "--steps", "6", "--trace", file]
    done = chain.command([*resumed, "--trace-steps", "2:4"], check=False)
    assert done.returncode > 0 and not file.exists()
    assert "begins before the run resumes, after step 2" in done.stdout + done.stderr
    chain.command(resumed)
    trace = Trace.load(file)
    assert [s.args["step"] for s in trace.track(trace.process("rank 0"), "steps")] == [5, 6]


def test_a_run_that_is_stopped_leaves_what_it_did(plans: Plans, tmp_path: pathlib.Path) -> None:
    file, metrics = tmp_path / "t.json", tmp_path / "metrics.jsonl"
    arguments = chain.run_arguments(plans(), 1_000_000) + ["--nproc", "2", "--trace", str(file)]
    arguments += ["--trace-steps", "2:1000000", "--metrics", str(metrics)]
    running = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=chain.environment()
    )
    try:
        deadline = time.monotonic() + 60
        while not metrics.exists() or len(metrics.read_text().splitlines()) < 5:
            assert running.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    trace = Trace.load(file)
    for rank in ("rank 0", "rank 1"):
        steps = [s.args["step"] for s in trace.track(trace.process(rank), "steps")]
        assert steps == list(range(2, 2 + len(steps))) and len(steps) >= 4


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--trace", "T", "--trace-steps", "3:9"], "goes beyond the run's 4 steps"),
        (["--trace", "T", "--trace-steps", "0:2"], "is no range of steps"),
        (["--trace", "T", "--trace-steps", "3:2"], "is no range of steps"),
        (["--trace", "T", "--trace-steps", "2:x"], "is no range of steps"),
        (["--trace", "T", "--trace-steps", f"2:{1 << 64}"], "'2:18446744073709551616' goes beyond"),
        (["--trace-steps", "2:3"], "--trace-steps requires --trace"),
        (["--trace", "/nowhere/t.json"], "cannot write /nowhere/t.json"),
        (["--trace", "T", "--trace-cluster", "moon"], "cluster=moon is neither"),
    ],
)
def test_what_cannot_be_traced_is_one_error(
    flags: list[str], message: str, plans: Plans, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "t.json"
    arguments = chain.run_arguments(plans(), STEPS) + ["--nproc", "2"]
    arguments += [str(file) if flag == "T" else flag for flag in flags]
    done = chain.command(arguments, check=False)
    output = done.stdout + done.stderr
    assert done.returncode > 0 and message in output
    assert output.count("error:") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options, flags",
    [
        ("", ["--threads"]),
        ("", ["--threads", "--comm", "nccl", "--cuda-graph"]),
        ("offload=all", ["--threads", "--comm", "nccl"]),
    ],
)
def test_a_gpus_streams_say_when_they_ran_what(
    options: str,
    flags: list[str],
    plans: Plans,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On imitated GPUs, whose streams are threads."""
    chain.imitated_gpus()
    if "nccl" in flags:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    compiled = plans(f"mesh=2 device=cuda {options}")
    run = functools.partial(record, compiled, tmp_path, program="imitated/fsdp-run")
    trace, metrics = run([*flags, "--trace-steps", "2:3"])
    rank0 = trace.process("rank 0")
    check_commands(trace, steps=2)
    check_gathers_meet(trace)
    steps = trace.track(rank0, "steps")
    assert [s.args["step"] for s in steps] == [2, 3]
    assert all(trace.exposed_ms(rank0, step) > 0 for step in steps)
    assert steps[0].end <= steps[1].begin
    # A graph that has been recorded is left for the traced steps, and changes no bit.
    _, later = run([*flags, "--trace-steps", "4"])
    assert [row["loss"] for row in metrics.values()] == [row["loss"] for row in later.values()]


@pytest.mark.provokes("FSDP-E0405")
def test_the_cluster_of_a_plan_may_be_gone(plans: Plans, tmp_path: pathlib.Path) -> None:
    made = tmp_path / "cluster.toml"
    made.write_text(
        'name = "ours"\nranks_per_node = 8\nmemory_bandwidth = 1e10\nlaunch_seconds = 1e-6\n'
        "collective_seconds = 1e-6\nskew_seconds = 1e-5\nflops = { float32 = 1e11 }\n"
        "intra_node = { bandwidth = 1e9, latency = 1e-6 }\n"
    )
    compiled = plans(f"mesh=2 cluster={made}")
    assert predicted(compiled).facts["predicted_on"] == "ours"
    made.unlink()
    translate = [chain.binary("fsdp-translate"), "--plan-to-trace", compiled.plan]
    done = chain.command(translate, check=False)
    assert done.returncode > 0 and f"cluster={made} is neither" in done.stderr
    assert "--trace-cluster" in done.stderr

"""Tests that a run which is killed, stopped or cannot write goes on, and that nothing is lost."""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, Callable

import pytest

from training.checkpoint.runs import Runs, assert_same
from product.cli.test_deaths import PATIENCE_S, ranks_of, wait_until
from support import chain

STEPS = 36
#: Of ranks, one after the other in the same run.
KILLS = 5


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(100 if metafunc.config.getoption("--long") else 5))


@pytest.fixture(scope="module")
def whole(
    lowered: Callable[[str], chain.Compiled], tmp_path_factory: pytest.TempPathFactory
) -> Runs:
    """The run to which nothing happens."""
    runs = Runs(lowered("mesh=2"), 2, tmp_path_factory.mktemp("whole"))
    runs.train()
    return runs


def wait_for_row(runs: Runs, process: "subprocess.Popen[str]", step: int) -> None:
    def is_there() -> bool:
        rows = runs.metrics.read_text().count('"step_ms"') if runs.metrics.exists() else 0
        return rows >= step or process.poll() is not None

    wait_until(is_there)


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP))
def test_a_stopped_run_ends_its_step_and_goes_on(
    number: signal.Signals, runs: Runs, whole: Runs
) -> None:
    process = runs.start("--throttle", "1,20000")
    wait_for_row(runs, process, 2)
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number, output
    assert "stopped after step" in output
    (step,) = runs.steps()
    assert runs.rows()[-1]["step"] == step < STEPS
    runs.train()
    assert_same(runs, whole)


def test_nohup_is_heard(runs: Runs, whole: Runs) -> None:
    process = subprocess.Popen(
        ["nohup", *runs.command("--throttle", "1,5000")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=chain.environment(),
    )
    wait_for_row(runs, process, 2)
    process.send_signal(signal.SIGHUP)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert_same(runs, whole)


def drop_rows_behind(runs: Runs, step: int) -> None:
    """As a run does that goes on from there, so that further rows are its own."""
    if runs.metrics.exists():
        lines = runs.metrics.read_text().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]
        kept = [line for line in whole if json.loads(line)["step"] <= step]
        runs.metrics.write_text("".join(kept))


def test_ranks_that_are_killed_cost_only_what_came_after_the_checkpoint(
    seed: int, runs: Runs, whole: Runs, record_property: Callable[[str, float], None]
) -> None:
    """A rank is killed anywhere in a run, and one of the run that goes on, and so on: of its start
    too, which takes longer than a step."""
    chance = random.Random(seed)
    for _ in range(KILLS):
        done = max(runs.steps(), default=0)
        drop_rows_behind(runs, done)
        process = runs.start("--throttle", "1,1000", "--checkpoint-interval", chance.randint(1, 4))
        wait_until(lambda: ranks_of(process.pid) or process.poll() is not None)
        starts = chance.random() < 0.2
        row = 0 if starts else min(done + chance.randint(1, 8), STEPS - 1)
        wait_for_row(runs, process, row)
        time.sleep(chance.random() * (1.0 if starts else 0.01))
        ranks = ranks_of(process.pid)
        if ranks:
            os.kill(chance.choice(ranks), signal.SIGKILL)
        killed = time.monotonic()
        output, _ = process.communicate(timeout=PATIENCE_S)
        took = time.monotonic() - killed
        when = "start" if starts else f"row {row}"
        print(f"seed {seed}: killed {len(ranks)} at {when}, all ended after {took:.2f} s")
        if ranks:
            record_property("killed while starting" if starts else "killed within a step", took)
        assert took < 10 or not ranks
        assert "damaged" not in output
    assert "damaged" not in runs.train()
    assert_same(runs, whole)


def torchrun(runs: Runs, restarts: int) -> "subprocess.Popen[str]":
    """A run of two ranks that writes checkpoints."""
    command = runs.command("--checkpoint-interval", 3, "--throttle", "1,20000")
    at = command.index("--nproc")
    del command[at : at + 2]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--standalone"]
    launcher += ["--nproc-per-node", "2", "--max-restarts", str(restarts)]
    return subprocess.Popen(
        [*launcher, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=chain.environment(),
    )


def test_torchrun_names_the_rank_that_was_killed(runs: Runs) -> None:
    """And not the first of the others, whose errors follow from it."""
    process = torchrun(runs, restarts=0)
    wait_for_row(runs, process, 2)
    os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    others, _, cause = output.partition("Root Cause")
    assert re.search(r"(?m)^ +rank +: 1 ", cause) and "Signal 9" in cause, output
    assert not re.search(r"(?m)^ +rank +: 0 ", cause), output
    # Torchrun ends the other rank as soon as it sees the death, perhaps before that rank does.
    assert re.search(r"(?m)^ +traceback : (rank 1 ended without a word|Signal 15)", others), output


def test_torchrun_starts_again_where_the_checkpoint_is(runs: Runs, whole: Runs) -> None:
    process = torchrun(runs, restarts=1)
    wait_for_row(runs, process, 8)
    os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert "resumed after step" in output
    assert_same(runs, whole)


def flight_record(runs: Runs, output: str, rank: int) -> dict[str, Any]:
    """What a rank wrote of the others, in the file that its error names."""
    path = runs.checkpoints / f"flight-rank{rank}.json"
    assert f"; see {path}" in output
    record = json.loads(path.read_text())
    assert record["rank"] == rank and record["world_size"] == 2
    return record


@pytest.mark.parametrize("transport", ("shm", "gloo"))
def test_a_rank_that_is_killed_is_named(transport: str, runs: Runs) -> None:
    """By the ranks that are left too, which write down how far they were."""
    process = runs.start("--throttle", "1,5000", "--comm", transport, "--checkpoint-interval", 2)
    wait_for_row(runs, process, 6)
    os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "[rank 1] was ended by signal 9" in output
    record = json.loads((runs.checkpoints / "flight-rank0.json").read_text())
    assert record["error"].startswith("rank 1 ended without a word")
    assert record["not_arrived"] == [1]
    assert [other["condition"] for other in record["others"]] == ["ended"]


@pytest.mark.parametrize("transport", ("shm", "gloo"))
def test_a_rank_that_hangs_is_found(transport: str, runs: Runs, whole: Runs) -> None:
    flags = ("--comm", transport, "--timeout", 3, "--checkpoint-interval", 2)
    process = runs.start("--throttle", "1,5000", *flags)
    wait_for_row(runs, process, 6)
    os.kill(ranks_of(process.pid)[1], signal.SIGSTOP)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, output
    record = flight_record(runs, output, rank=0)
    assert record["not_arrived"] == [1]
    (other,) = record["others"]
    assert (other["rank"], other["condition"]) == (1, "stopped")
    (waiting,) = [channel["awaits"] for channel in record["channels"] if "awaits" in channel]
    assert re.search(
        r"rank 1 has kept rank 0 waiting for \d+ s, since .* UTC, "
        rf"in {re.escape(waiting['name'])} of step {record['step']}: "
        r"its process \d+ on .* is stopped; see ",
        output,
    ), output
    assert waiting["for_ms"] >= 2900  # Gloo begins to count some milliseconds before
    launched = [command for stream in record["streams"].values() for command in stream]
    assert max(command["step"] for command in launched) == record["step"]
    if waiting["name"] != "an agreement between steps":
        assert waiting["name"] in [command["name"] for command in launched]
    runs.train()
    assert_same(runs, whole)


def test_a_folder_that_is_removed_is_made_again(runs: Runs, whole: Runs) -> None:
    process = runs.start("--throttle", "1,20000", "--checkpoint-interval", 2)
    wait_for_row(runs, process, 6)
    shutil.rmtree(runs.checkpoints, ignore_errors=True)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert "was removed while the run used it; it is made again" in output
    assert runs.steps()[-1] == STEPS
    assert_same(runs, whole)
    assert "nothing is left to train" in runs.train()


def test_metrics_that_cannot_be_written_do_not_end_a_run(runs: Runs, whole: Runs) -> None:
    runs.metrics, summary = pathlib.Path("/dev/full"), runs.folder / "summary.json"
    output = runs.train("--summary", summary)
    assert "a line of /dev/full could not be written: No space left" in output
    assert json.loads(summary.read_text())["lost_metrics_lines"] > 0
    assert_same(runs, whole, rows=False)
    assert "nothing is left to train" in runs.train()  # nor does it read what has no end


def test_a_limit_of_the_sizes_of_files_does_not_end_a_run(runs: Runs) -> None:
    """As `ulimit -f` sets it: a signal would end a rank, where a full disk is a note."""
    command = ["prlimit", "--fsize=1000", *runs.command("--steps", 4, threads=True)]
    done = subprocess.run(command, capture_output=True, text=True, env=chain.environment())
    assert "the checkpoint of step 4 could not be written" in done.stdout
    assert "File too large; training goes on" in done.stdout
    assert runs.steps() == [] and runs.rows()


def test_lines_that_cannot_be_printed_are_counted(runs: Runs, whole: Runs) -> None:
    """And notes go where errors go."""
    summary = runs.folder / "summary.json"
    command = runs.command("--progress", "lines", "--summary", summary)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=chain.environment()
        )
    assert done.returncode == 0, done.stderr
    lost = json.loads(summary.read_text())["unprinted_lines"]
    assert lost > STEPS / 2
    assert f"note: {lost} lines could not be printed: No space left on device" in done.stderr
    assert_same(runs, whole)


def test_a_reader_that_leaves_does_not_end_a_run(runs: Runs, whole: Runs) -> None:
    process = runs.start("--progress", "lines")
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert_same(runs, whole)

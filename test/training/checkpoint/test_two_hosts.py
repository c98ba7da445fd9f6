"""Tests that a run on two hosts ends with the reason where they lose each other, and goes on."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
from typing import Any, Callable, Iterator

import pytest

from training.checkpoint.runs import Runs, assert_same
from training.checkpoint.test_interruptions import wait_for_row
from product.cli.test_deaths import PATIENCE_S, ranks_of
from support import chain
from support.hosts import ADDRESSES, CABLE, NAMES, Hosts, two_hosts, why_not

STEPS, DEADLINE_S = 14, 4


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if reason := why_not():
        pytest.skip(reason)
    with two_hosts() as hosts:
        yield hosts


@pytest.fixture
def runs(lowered: Callable[[str], chain.Compiled], tmp_path: pathlib.Path) -> Runs:
    """Two ranks on each host."""
    (tmp_path / "cut").mkdir()
    return Runs(lowered("mesh=4"), 4, tmp_path / "cut")


@pytest.fixture
def whole(runs: Runs, tmp_path: pathlib.Path) -> Runs:
    """The run to which nothing happens, on one host."""
    (tmp_path / "whole").mkdir()
    whole = Runs(runs.compiled, 4, tmp_path / "whole")
    whole.train("--steps", STEPS)
    return whole


def start(
    hosts: Hosts, runs: Runs, *extra: Any, own: tuple[list[Any], ...] = ([], [])
) -> list["subprocess.Popen[str]"]:
    """A launcher on each host, with flags of its own."""
    command = runs.command("--steps", STEPS, "--nnodes", 2, "--master-addr", ADDRESSES[0], *extra)
    command[command.index("--nproc") + 1] = "2"
    return [
        subprocess.Popen(
            hosts.inside(host, [*command, "--node-rank", host, *own[host]]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=chain.environment(GLOO_SOCKET_IFNAME=CABLE),
        )
        for host in range(2)
    ]


def started_until(hosts: Hosts, runs: Runs, step: int) -> list["subprocess.Popen[str]"]:
    """Slow enough to be hit within a step."""
    slow = ("--throttle", "1,10000", "--timeout", DEADLINE_S, "--checkpoint-interval", 2)
    processes = start(hosts, runs, *slow)
    wait_for_row(runs, processes[0], step)
    return processes


def outputs_of(processes: list["subprocess.Popen[str]"], status: int) -> list[str]:
    outputs = [process.communicate(timeout=PATIENCE_S)[0] for process in processes]
    assert [process.returncode for process in processes] == [status] * 2, outputs
    return outputs


def go_on(hosts: Hosts, runs: Runs, whole: Runs) -> None:
    outputs = outputs_of(start(hosts, runs), 0)
    assert "4 ranks over Gloo" in outputs[0]
    assert "resumed after step" in outputs[0] and "damaged" not in outputs[0]
    assert_same(runs, whole)


def test_ranks_that_differ_are_named_with_their_hosts(hosts: Hosts, runs: Runs) -> None:
    processes = start(hosts, runs, own=(["--seed", 1], ["--seed", 2]))
    for output in outputs_of(processes, 1):
        words = f"rank 0 on {NAMES[0]} and rank 2 on {NAMES[1]} have a different set of flags"
        assert words in output, output


def test_hosts_that_are_cut_off_name_each_others_ranks(
    hosts: Hosts, runs: Runs, whole: Runs
) -> None:
    processes = started_until(hosts, runs, 5)
    hosts.cut()
    outputs = outputs_of(processes, 1)
    for host, output in enumerate(outputs):
        other = 1 - host
        lost = f"ranks {2 * other} and {2 * other + 1} have kept rank [{2 * host}{2 * host + 1}]"
        assert re.search(rf"{lost} waiting for \d s, since .* UTC, in .* of step \d+: ", output)
        assert f"on {NAMES[other]} " in output and f"on {NAMES[host]} " not in output, output
    # The ranks met on the first host, where the others can still be asked for.
    assert "does not answer: it is stopped, or its host is dead or cut off" in outputs[0]
    assert "cannot be asked, nor does the place answer where the ranks met" in outputs[1]
    for rank in range(4):
        record = json.loads((runs.checkpoints / f"flight-rank{rank}.json").read_text())
        assert record["not_arrived"] == ([2, 3] if rank < 2 else [0, 1])
        assert record["host"] == NAMES[rank // 2]
    assert runs.steps(), "a checkpoint was written before"
    hosts.plug()
    go_on(hosts, runs, whole)


def test_a_rank_of_the_other_host_is_stopped(hosts: Hosts, runs: Runs, whole: Runs) -> None:
    processes = started_until(hosts, runs, 5)
    launcher = ranks_of(processes[1].pid)  # nsenter stays where it was, and starts one inside
    stopped = ranks_of(launcher[0])[1] if len(launcher) == 1 else launcher[1]
    os.kill(stopped, signal.SIGSTOP)
    outputs = outputs_of(processes, 1)
    # The first host's ranks say what they found, or what rank 2, which saw more, said before.
    assert re.search(r"rank 3 has kept rank [012] waiting for \d s, since", outputs[0])
    assert re.search(rf"on {NAMES[1]} (is stopped|does not answer: it is stopped)", outputs[0])
    assert re.search(rf"rank 3 has kept rank 2 waiting .* on {NAMES[1]} is stopped", outputs[1])
    go_on(hosts, runs, whole)

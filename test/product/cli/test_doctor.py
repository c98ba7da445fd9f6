"""Tests that `fsdp-run --doctor` describes hosts and collectives, and names what is wrong."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Sequence

import pytest
import torch

from product.cli.test_launch import TORCHRUN
from support import chain
from support.hosts import ADDRESSES, CABLE, NAMES, Hosts, two_hosts, why_not

KINDS = ["all-gather", "reduce-scatter", "all-reduce", "all-to-all"]
DEADLINE_S = 2


def doctor(*words: Any, **variables: str) -> "subprocess.CompletedProcess[str]":
    command = [chain.binary("fsdp-run"), "--doctor", *words]
    return chain.command(command, check=False, env=chain.environment(**variables))


@pytest.mark.quick
def test_the_doctor_describes_one_host() -> None:
    environment = chain.environment(OMP_SCHEDULE="static")
    del environment["OMP_NUM_THREADS"]
    command = [chain.binary("fsdp-run"), "--doctor", "--nproc", 2, "--json"]
    done = chain.command(command, env=environment)
    found = json.loads(done.stdout)
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    for rank in found["ranks"]:
        facts = rank["facts"]
        assert facts["pytorch"] == torch.__version__.partition("+")[0]
        assert facts["cores"] >= 1 and 0 < facts["memory"]["free"] <= facts["memory"]["total"]
        assert facts["variables"]["OMP_SCHEDULE"] == "static"
        # Which this program sets itself, for a run's ranks and for the NCCL that it loads.
        assert not {"OMP_NUM_THREADS", "NCCL_LAUNCH_ORDER_IMPLICIT"} & {*facts["variables"]}
        assert "FSDP_RUN_SECRET" not in facts["variables"], "people send each other such output"
        assert any(i["is_loopback"] and "127.0.0.1" in i["addresses"] for i in facts["interfaces"])
        assert rank["flops"] > 0
        assert [t["transport"] for t in rank["transports"]] == ["shared memory", "Gloo"]
        for transport in rank["transports"]:
            assert transport["error"] == "" and transport["latency"] > 0
            assert [speed["kind"] for speed in transport["bandwidths"]] == KINDS
            assert all(speed["bytes_per_second"] > 0 for speed in transport["bandwidths"])


def test_one_rank_alone() -> None:
    done = doctor()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 rank on 1 host\n")
    assert "1 rank: no collectives; --nproc N measures them" in done.stdout


def test_under_torchrun() -> None:
    launcher = [*TORCHRUN, "--standalone", "--nproc-per-node", "2"]
    done = chain.command([*launcher, chain.binary("fsdp-run"), "--doctor"])
    assert done.stdout.startswith("2 ranks on 1 host met at ")
    assert done.stdout.count("versions ") == 1, "ranks of one host are described once"


def test_more_threads_than_cores_and_an_interface_that_is_none() -> None:
    """Which do no harm to ranks that share memory."""
    done = doctor("--nproc", 2, OMP_NUM_THREADS="4096", GLOO_SOCKET_IFNAME="no0")
    assert done.returncode == 0, done.stderr
    assert "note: 2 ranks of 4096 threads on " in done.stdout
    assert "note: GLOO_SOCKET_IFNAME is 'no0' on " in done.stdout


@pytest.mark.provokes("FSDP-E0613")
def test_ranks_that_share_a_gpu() -> None:
    """What NCCL would refuse is said in this program's words, with a way out."""
    command = [chain.imitated_gpus() / "fsdp-run", "--doctor", "--nproc", 2]
    done = chain.command(command, check=False)
    assert done.returncode == 1
    assert "GPUs          imitated GPU, driver for CUDA " in done.stdout
    assert (
        "problem: collectives over NCCL cannot begin on ranks 0, 1 (ranks 0 and 1 " in done.stdout
    )
    assert "give each its own in CUDA_VISIBLE_DEVICES" in done.stdout


@pytest.mark.parametrize(
    "words, message",
    (
        (["step.plan"], "plan excludes --doctor"),
        (["--threads"], "--doctor looks at ranks that are processes; drop --threads"),
    ),
)
def test_flags_that_do_not_fit(words: list[str], message: str) -> None:
    done = doctor(*words)
    assert done.returncode != 0 and message in done.stderr


def on_two_hosts(hosts: Hosts, variables: Sequence[dict[str, str]], *words: Any) -> tuple[int, str]:
    """A rank on each: the first one's exit status, and what it prints."""
    command = [chain.binary("fsdp-run"), "--doctor", "--nproc", 1, "--nnodes", 2]
    command += ["--master-addr", ADDRESSES[0], "--timeout", DEADLINE_S, *words]
    processes = [
        subprocess.Popen(
            hosts.inside(host, [*command, "--node-rank", host]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=chain.environment(**variables[host]),
        )
        for host in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    return processes[0].returncode, outputs[0]


def test_two_hosts_and_what_differs() -> None:
    if reason := why_not():
        pytest.skip(reason)
    cable = {"GLOO_SOCKET_IFNAME": CABLE}
    with two_hosts() as hosts:
        status, output = on_two_hosts(hosts, [cable, {**cable, "NCCL_DEBUG": "WARN"}])
        assert status == 0, output
        assert output.startswith(f"2 ranks on 2 hosts met at {ADDRESSES[0]}:29500\n")
        for name, address in zip(NAMES, ADDRESSES):
            assert f"{name} (rank " in output and f"{CABLE} {address}" in output
        assert "s to rank 0's, known to " in output
        assert "MTU 1500" in output and "shared memory" not in output and "Gloo  " in output
        only = f"note: NCCL_DEBUG is not set on {NAMES[0]} and is 'WARN' on {NAMES[1]}; "
        assert only in output

        # The first one listens where the second one does not reach it.
        status, output = on_two_hosts(hosts, [{"GLOO_SOCKET_IFNAME": "lo"}, cable])
        assert status == 1
        where = f"problem: {NAMES[0]} listens for other hosts at 127.0.0.1 (lo), which they cannot"
        assert where in output and f"set GLOO_SOCKET_IFNAME={CABLE} there" in output
        assert "problem: collectives over Gloo cannot begin on " in output


def test_a_network_that_loses_large_packets() -> None:
    if reason := why_not():
        pytest.skip(reason)
    cable = {"GLOO_SOCKET_IFNAME": CABLE}
    with two_hosts(largest_packet=1400) as hosts:
        status, output = on_two_hosts(hosts, [cable, cable])
    assert status == 1
    met = "the ranks have met, but what they found did not get through (rank 1 of 2 came to "
    assert met in output and "are large packets lost on the way? 'ping -M do " in output
    assert "[FSDP-E0614]" in output

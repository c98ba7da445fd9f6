"""Tests that --plan-to-json says what compiler and plan say, and that what it promises comes true."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from support import chain
from product.traces.conftest import Plans, report

TRANSLATE = "fsdp-translate"
# On which the tiny step moves bytes for longer than it computes.
SLOW = """name = "slow"
ranks_per_node = 8
memory_bandwidth = 1e10
launch_seconds = 1e-6
collective_seconds = 1e-6
skew_seconds = 0.0
flops = { float32 = 1e11, bfloat16 = 1e11 }
intra_node = { bandwidth = 1e7, latency = 1e-6 }
"""


def facts(compiled: chain.Compiled, *flags: str) -> dict[str, Any]:
    translate = chain.binary(TRANSLATE)
    return json.loads(chain.command([translate, "--plan-to-json", compiled.plan, *flags]).stdout)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param("mesh=2", marks=pytest.mark.quick),
        "mesh=2 shard-layout=flat gather=copy schedule=fsdp2",
        "mesh=2x2 mesh-dims=replicate,shard cluster=h100x8",
        "mesh=4x2x4 cluster=h100x8",
        "mesh=4 reshard-after-forward=2 cluster=h100x8",
        "mesh=2 offload=all cluster=h100x8",
        "mesh=2 offload=optimizer shard-layout=flat remat=full",
        "mesh=2 streams=1 schedule=naive",
        "mesh=2 device=cuda",
    ],
)
def test_figures_are_the_compilers_and_add_up(options: str, plans: Plans) -> None:
    compiled = plans(options)
    said = facts(compiled)
    figures = report(compiled, said["cluster"])
    assert said["ranks"] == figures["ranks"]
    parameters = [state for state in said["states"] if state["role"] == "parameter"]
    assert len(parameters) == figures["parameters"]
    assert all(state["sharded"] for state in parameters)
    flat = "shard-layout=flat" in options
    assert all(("flat" in state) == flat != ("rank_shape" in state) for state in parameters)
    assert sum(unit["parameters"] for unit in said["units"]) == figures["parameters"]
    assert sum(u["parameter_bytes"] for u in said["units"]) == figures["parameter_bytes"]
    assert {a["name"]: a["bytes"] for a in said["arenas"]} == {
        a["name"]: a["bytes"] for a in figures["arenas"]
    }
    assert set(said["programs"]) == set(figures["programs"])
    for name, program in said["programs"].items():
        expected = figures["programs"][name]
        for ours, theirs in (
            ("predicted_us", "predicted_seconds"),
            ("communication_us", "communication_seconds"),
            ("exposed_us", "exposed_seconds"),
        ):
            assert program[ours] == pytest.approx(1e6 * expected[theirs], rel=1e-6, abs=1e-3)
        # Every exposed moment is booked on one command, once.
        shares = [entry["us"] for entry in program["exposed"]]
        assert sum(shares) == pytest.approx(program["exposed_us"], abs=1e-3)
        assert shares == sorted(shares, reverse=True) and all(share > 0 for share in shares)
        for kind, count in (
            ("all-gather", "gathers_forward"),
            ("reduce-scatter", "reduce_scatters"),
        ):
            found = [c for c in program["collectives"] if c["kind"] == kind]
            if kind == "all-gather":
                found = [c for c in found if c["region"] != "backward"]
            assert len(found) == expected[count]
        device = program["memory"]["device"]
        assert device["live_bytes"] == expected["live_bytes"] == sum(device["kinds"].values())
        if "host" in program["memory"]:
            assert program["memory"]["host"]["live_bytes"] == expected["host_live_bytes"]
        for peak in program["memory"].values():
            assert sum(t["bytes"] for t in peak["tensors"]) + peak["kinds"].get("padding", 0) == (
                peak["live_bytes"]
            )


def test_compiler_and_plan_price_a_product_as_measured(
    plans: Plans, tmp_path: pathlib.Path
) -> None:
    """By a table in which each product takes a second; what is recomputed takes it twice."""
    table = tmp_path / "kernels.toml"
    options = "mesh=2 remat=full"
    chain.command([chain.binary("fsdp-run"), plans(options).plan, "--tune", table])
    table.write_text(re.sub(r"= [^{},=\s]+e[-+]\d+", "= 1.0", table.read_text()))
    compiled = plans(f"{options} kernels=fast kernel-table={table}")
    said, figures = facts(compiled), report(compiled)
    text = chain.plan_text(compiled.plan)
    step = text.partition("program step:")[2].partition("program ")[0]
    products = step.count(" measured 1000000.0 us")
    assert products > step.count(" recomputed measured 1000000.0 us") > 0
    for name, program in said["programs"].items():
        expected = figures["programs"][name]["predicted_seconds"]
        assert program["predicted_us"] == pytest.approx(1e6 * expected, rel=1e-9)
    assert said["programs"]["step"]["predicted_us"] == pytest.approx(1e6 * products, rel=1e-3)


@pytest.mark.parametrize(
    "options, axes",
    [
        ("mesh=4x2", [("replicate", 4, "replicate"), ("shard", 2, "shard")]),
        (
            "mesh=2x2x4 mesh-dims=pods,nodes,gpus",
            [("pods", 2, "replicate"), ("nodes", 2, "replicate"), ("gpus", 4, "shard")],
        ),
    ],
)
def test_axes_have_roles(options: str, axes: list[tuple[str, int, str]], plans: Plans) -> None:
    said = facts(plans(f"{options} cluster=h100x8"))["mesh"]
    assert [(axis["name"], axis["size"], axis["role"]) for axis in said] == axes


def test_tensors_at_the_peak_have_the_users_lines(plans: Plans) -> None:
    peak = facts(plans())["programs"]["step"]["memory"]["device"]
    lines = [t.get("source", "") for t in peak["tensors"] if t["kind"] == "activations"]
    assert all(line == "" or line.rpartition(":")[2].isdigit() for line in lines)
    assert sum(line.startswith("step.py:") for line in lines) > len(lines) / 2


@pytest.mark.parametrize(
    "promise, options",
    [
        ("reshard-after-forward=false", "reshard-after-forward=false"),
        ("reduce-dtype=bfloat16", "reduce-dtype=bfloat16"),
        ("schedule=overlap", "schedule=overlap streams=3"),
    ],
)
def test_a_remedy_saves_what_it_promises(
    promise: str, options: str, plans: Plans, tmp_path: pathlib.Path
) -> None:
    """Compiled with what a remedy says, a plan of one unit gains what the remedy said, or, where
    that is a bound, no more than all of them together."""
    cluster = tmp_path / "slow.toml"
    cluster.write_text(SLOW)
    start = "streams=1 schedule=naive" if promise == "schedule=overlap" else "schedule=fsdp2"
    units = "units=class:Block"
    base = f"mesh=2 cluster={cluster} {units}"
    before = facts(plans(f"{base} {start}"))["programs"]["step"]
    rest = "" if promise == "schedule=overlap" else start
    after = facts(plans(f"{base} {options} {rest}"))["programs"]["step"]
    offered: dict[str, float] = {}
    for entry in before["exposed"]:
        for remedy in entry["remedies"]:
            if promise in remedy["what"]:
                offered[remedy["what"] + ("" if "'" in remedy["what"] else entry["name"])] = remedy[
                    "us"
                ]
    gained = before["predicted_us"] - after["predicted_us"]
    assert offered, "nothing to try"
    if promise == "schedule=overlap":
        assert 0 < gained <= sum(offered.values())
    else:
        assert gained == pytest.approx(sum(offered.values()), rel=0.35)


def test_a_bound_is_the_prediction_for_faster_links(plans: Plans, tmp_path: pathlib.Path) -> None:
    slow, fast = tmp_path / "slow.toml", tmp_path / "fast.toml"
    slow.write_text(SLOW)
    fast.write_text(SLOW.replace("bandwidth = 1e7", "bandwidth = 2e7"))
    compiled = plans("mesh=2 units=class:Block")
    before, after = (
        facts(compiled, "--trace-cluster", str(file))["programs"]["step"] for file in (slow, fast)
    )
    (bound,) = [b["us"] for b in before["bounds"] if b["what"] == "links of twice the bandwidth"]
    assert bound > 0
    assert bound == pytest.approx(before["predicted_us"] - after["predicted_us"], rel=1e-6)

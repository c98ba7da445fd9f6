"""Tests that what the compiler's remarks claim is so in the plan that comes out."""

from __future__ import annotations

import json
import math
import pathlib
import re
from collections import Counter
from typing import Any, NamedTuple

import pytest

from fsdp_mlir.report.remarks import Remark, read_remarks
from support import chain
from traces.conftest import Plans

PLAIN = "mesh=2 units=class:Block"
OPTIONS = f"{PLAIN} remat=full offload=optimizer"


class Decided(NamedTuple):
    remarks: list[Remark]
    scheduled: dict[str, Any]  # the report on the step that the scheduler leaves
    facts: dict[str, Any]  # of the plan
    text: str

    @property
    def step(self) -> dict[str, Any]:
        return self.facts["programs"]["step"]

    def by(self, name: str) -> list[Remark]:
        """Those of a pass, by PASS or PASS.REMARK."""
        by, _, which = name.partition(".")
        found = [r for r in self.remarks if r.by == f"fsdp-{by}" and which in ("", r.name)]
        assert found, f"{name} said nothing"
        return found

    def said(self, name: str, pattern: str) -> list[tuple[str, ...]]:
        """The groups of a pattern that is the whole text of each remark."""
        matches = [re.fullmatch(pattern, remark.text) for remark in self.by(name)]
        assert all(matches), [remark.text for remark in self.by(name)]
        return [match.groups() for match in matches if match]

    def collectives(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.step["collectives"] if one["kind"] == kind]


@pytest.fixture(scope="module")
def decided(plans: Plans, tmp_path_factory: pytest.TempPathFactory) -> Decided:
    return decide(plans(OPTIONS), OPTIONS, tmp_path_factory.mktemp("remarks") / "yaml")


@pytest.fixture(scope="module")
def plain(plans: Plans, tmp_path_factory: pytest.TempPathFactory) -> Decided:
    return decide(plans(PLAIN), PLAIN, tmp_path_factory.mktemp("remarks") / "yaml")


def decide(compiled: chain.Compiled, options: str, remarks: pathlib.Path) -> Decided:
    opt = [chain.binary("fsdp-opt"), compiled.ir, f"--fsdp-pipeline={options}", "-o", "/dev/null"]
    opt += ["--remarks-filter=fsdp.*", "--remark-format=yaml", f"--remarks-output-file={remarks}"]
    chain.command(opt)
    opt = [chain.binary("fsdp-opt"), compiled.ir, f"--fsdp-shard={options}", "--fsdp-overlap"]
    report = chain.command([*opt, "--fsdp-report=format=json", "-o", "/dev/null"]).stdout
    show = [chain.binary("fsdp-translate"), compiled.plan]
    facts = json.loads(chain.command([*show, "--plan-to-json"]).stdout)
    scheduled = json.loads(report)["programs"]["step"]
    text = chain.command([*show, "--plan-to-text"]).stdout
    return Decided(read_remarks(remarks), scheduled, facts, text)


def figures(remark: Remark) -> dict[str, str]:
    return dict(remark.figures)


def bytes_of(state: dict[str, Any]) -> int:
    assert state["dtype"] == "float32"
    return 4 * math.prod(state["rank_shape"])


@pytest.mark.quick
def test_units_have_their_parameters(decided: Decided) -> None:
    said = decided.said("assign-units.unit", r'unit "(.*)": (\d+) parameters, (\d+) bytes')
    assert {(unit or "root", int(n), int(size)) for unit, n, size in said} == {
        (unit["unit"], unit["parameters"], unit["parameter_bytes"])
        for unit in decided.facts["units"]
    }


def test_states_are_split_and_moved_as_is_said(decided: Decided) -> None:
    states = {state["name"]: state for state in decided.facts["states"]}
    for name, rows, part, padding in decided.said(
        "shard-state.shard", r'"(.*)": (\d+) rows, (\d+) per rank, (\d+) of padding'
    ):
        assert states[name]["shape"][0] == int(rows)
        assert states[name]["rank_shape"][0] == int(part)
        assert 2 * int(part) - int(rows) == int(padding)
    for name, whole, part in decided.said("localize", r'"(.*)": (\d+) bytes, (\d+) per rank'):
        assert 4 * math.prod(states[name]["shape"]) == int(whole)
        assert bytes_of(states[name]) == int(part)
    moved = decided.said("offload-state", r'"(.*)": (\d+) bytes per rank are on the host')
    on_host = {name: bytes_of(s) for name, s in states.items() if s["arena"] == "host"}
    assert {name: int(size) for name, size in moved} == on_host


def test_buckets_are_the_plans_collectives(decided: Decided) -> None:
    """Of two ranks each sends its own piece, and takes the other one's."""
    gathers = Counter(
        (said["unit"] or "root", said["region"], float(said["bytes_per_rank"]))
        for said in map(figures, decided.by("bucket-collectives.gather"))
    )
    assert gathers == Counter(
        (one["unit"], one["region"], one["bytes_sent_per_rank"])
        for one in decided.collectives("all-gather")
    )
    sums = Counter(
        (said["unit"] or "root", float(said["bytes"]))
        for said in map(figures, decided.by("bucket-collectives.reduce"))
    )
    assert sums == Counter(
        (one["unit"], one["bytes"]) for one in decided.collectives("reduce-scatter")
    )


def test_the_schedule_takes_as_long_as_is_said(decided: Decided) -> None:
    """What lowering then places without a copy makes the plan a little faster, and no slower."""
    [said] = [figures(remark) for remark in decided.by("schedule-overlap.schedule")]
    for name, figure in (
        ("step_us", "predicted_seconds"),
        ("communication_us", "communication_seconds"),
        ("exposed_us", "exposed_seconds"),
    ):
        assert float(said[name]) == pytest.approx(1e6 * decided.scheduled[figure], abs=0.051)
    assert 0.95 * float(said["step_us"]) < decided.step["predicted_us"] <= float(said["step_us"])
    communication = decided.step["communication_us"]
    assert float(said["communication_us"]) == pytest.approx(communication, rel=0.01)
    gathers = Counter(
        (said["unit"] or "root", said["region"], said["us"])
        for said in map(figures, decided.by("schedule-overlap.gather"))
        if said["region"] != "update"
    )
    assert gathers == Counter(
        (one["unit"], one["region"], f"{one['end_us'] - one['begin_us']:.1f}")
        for one in decided.collectives("all-gather")
    )


def test_gradients_are_reduced_as_is_said(decided: Decided) -> None:
    said = decided.said(
        "insert-grad-reduction.reduce", r'the gradient of "(.*)" is averaged over the ranks in (.*)'
    )
    states = decided.facts["states"]
    assert sorted(name for name, _ in said) == sorted(
        s["name"] for s in states if s.get("trainable")
    )
    sums = decided.collectives("reduce-scatter")
    assert {dtype for _, dtype in said} == {"f32"} and {s["dtype"] for s in sums} == {"float32"}


@pytest.mark.parametrize("offload", (False, True))
def test_reductions_take_as_long_as_is_said(
    offload: bool, decided: Decided, plain: Decided
) -> None:
    """Where the optimizer is on the host, so much more as the copies of gradients take."""
    has = decided if offload else plain
    pattern = r"reduce-scatter( and its copy to the host)? is waited for behind its start"
    assert {bool(copy) for (copy,) in has.said("schedule-overlap.reduce", pattern)} == {offload}
    said = {figures(r)["unit"] or "root": r for r in has.by("schedule-overlap.reduce")}
    sums = {
        one["unit"]: one["end_us"] - one["begin_us"] for one in has.collectives("reduce-scatter")
    }
    assert said.keys() == sums.keys()
    for unit, remark in said.items():
        us = float(figures(remark)["us"])
        assert us > sums[unit] + 0.05 if offload else us == pytest.approx(sums[unit], abs=0.051)


def test_what_is_copied_into_a_bucket_is_what_is_gathered(decided: Decided) -> None:
    """In the layout of rows: each unit's parts before forward's gather, whatever their readers."""
    copies = [figures(r) for r in decided.by("lower-to-commands.copy")]
    units = {unit["unit"]: unit for unit in decided.facts["units"]}
    said = decided.said("insert-unshard.unshard", r'unit "(.*)": (\d+) readers in (\w+)')
    for name, unit in units.items():
        parts = [s for s in decided.facts["states"] if s.get("unit") == name and s.get("trainable")]
        size = sum(map(bytes_of, parts))
        assert (str(unit["parameters"]), str(size)) in {(c["members"], c["bytes"]) for c in copies}
        readers = {region: int(n) for u, n, region in said if (u or "root") == name}
        assert readers["forward"] >= unit["parameters"]
    gathered = {(one["unit"], one["region"]) for one in decided.collectives("all-gather")}
    assert {(u or "root", region) for u, _, region in said} == {
        (u, region) for u, region in gathered if region != "update"
    }


def test_memory_is_what_was_planned(decided: Decided) -> None:
    """The remark counts what lies behind the states."""
    for said in map(figures, decided.by("plan-memory")):
        [arena] = [a["bytes"] for a in decided.facts["arenas"] if a["name"] == said["Arena"]]
        live = decided.step["memory"][said["Arena"]]["live_bytes"]
        assert arena - int(said["Bytes"]) == live - int(said["LeastBytes"])
        assert 0 <= int(said["LeastBytes"]) <= int(said["Bytes"]) < int(said["BytesWithoutReuse"])


def test_backward_repeats_as_many_ops_as_is_said(decided: Decided) -> None:
    said = decided.said("remat-activations", r'"(.*)": backward repeats (\d+) of \d+ ops')
    repeated = [line for line in decided.text.splitlines() if " recomputed" in line]
    assert len(repeated) == sum(int(count) for _, count in said)


def test_what_is_meant_is_proved(decided: Decided) -> None:
    """All outputs, buffers, gradients and updates, none of which the checker leaves out."""
    [said] = [figures(remark) for remark in decided.by("verify-commands.meaning")]
    assert int(said["covered"]) == decided.step["meaning"]["covered"]

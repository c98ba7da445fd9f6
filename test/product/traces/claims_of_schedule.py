"""What remarks claim of collectives, of when they run and how long, derived from plan and report."""

from __future__ import annotations

import itertools
import re
from collections import Counter

import pytest

from product.traces.claims import (
    OFFLOADED,
    OWN,
    PLAIN,
    Case,
    Decided,
    Deciding,
    bytes_of,
    claim,
    figures,
)
from product.traces.claims_of_sharding import FLAT, SUMMED

CAPPED = Case(f"{PLAIN.options} bucket-cap-mib=0.002")
KEPT = Case("mesh=4 reshard-after-forward=2 units=class:Block")


@claim("bucket-collectives.gather", "bucket-collectives.reduce", of=OFFLOADED)
def buckets_are_the_plans_collectives(decided: Decided) -> None:
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


@claim("bucket-collectives.cut", of=CAPPED)
def a_bounded_unit_is_as_many_buckets(decided: Decided) -> None:
    """Its collectives in the plan: those of a region, or of its gradients. They are larger than
    what is cut by padding alone."""
    for unit, what, size, buckets, most in decided.said(
        "bucket-collectives.cut", "unit", "text", "bytes", "buckets", "most_bytes"
    ):
        of = [
            one["bytes"]
            for one in decided.step["collectives"]
            if one["unit"] == (unit or "root")
            and (one["kind"] == "reduce-scatter" if what == "gradients" else one["region"] == what)
        ]
        assert len(of) == buckets and most == int(0.002 * 2**20)
        assert size <= sum(of) < size + 64 * 2 * 12
        if what != "backward":  # which reads no biases
            own = decided.states(unit=unit or "root")
            assert size == 2 * sum(map(bytes_of, own))


@claim("keep-pieces.keep", of=KEPT)
def neighbours_keep_what_backward_gathers(decided: Decided) -> None:
    said = {
        (one["unit"] or "root", int(one["neighbours"]), float(one["bytes_per_rank"]))
        for one in map(figures, decided.by("keep-pieces.keep"))
    }
    gathers = decided.collectives("all-gather")
    assert said == {
        (one["unit"], one["ranks"], one["bytes"] / one["ranks"])
        for one in gathers
        if one["region"] == "backward"
    }
    # What forward gathered whole is what they keep the parts of.
    assert said == {
        (one["unit"], 2, one["bytes"] / 2) for one in gathers if one["region"] == "forward"
    }


@claim("dedup-unshard.dedup")
def readers_of_a_region_share_a_gather(decided: Decided) -> None:
    """In the IR before there is a gather for each reader."""
    readers: Counter[tuple[str, str]] = Counter()
    loaded: dict[str, str] = {}
    for line in decided.sharded.splitlines():
        if load := re.match(r'\s*(%\w+) = fsdp\.load @"?([^" ]+)"? ', line):
            loaded[load[1]] = load[2]
        elif gather := re.search(
            r"shard\.all_gather (%\w+) .*fsdp\.region = #fsdp<region (\w+)>", line
        ):
            readers[loaded[gather[1]], gather[2]] += 1
    said = decided.said("dedup-unshard.dedup", "state", "readers")
    assert Counter(said) == Counter(
        (name, count) for (name, _), count in readers.items() if count > 1
    )


def _in_flight(decided: Decided, program: str) -> int:
    """Collectives of a program, and copies on streams of their own: from and to the host."""
    copies = [line for line in decided.commands(program) if re.match(r"  [1-9]\d*\| copy", line)]
    return len(decided.facts["programs"][program]["collectives"]) + len(copies)


@claim("convert-to-async.async", of=None)
def what_starts_is_what_runs_beside_compute(deciding: Deciding) -> None:
    for case in (PLAIN, OFFLOADED, SUMMED, FLAT, KEPT):
        decided = deciding(case)
        started = decided.said("convert-to-async.async", "started")
        programs = [remark.function for remark in decided.by("convert-to-async.async")]
        said = {program: count for program, (count,) in zip(programs, started)}
        assert said == {name: _in_flight(decided, name) for name in decided.facts["programs"]}, case


@claim("schedule-overlap.schedule", "schedule-overlap.gather", of=OFFLOADED)
def the_schedule_takes_as_long(decided: Decided) -> None:
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


@claim("schedule-overlap.reduce", of=None)
def reductions_take_as_long(deciding: Deciding) -> None:
    """Where the optimizer is on the host, so much more as the copies of gradients take."""
    for case in (PLAIN, OFFLOADED):
        offload, has = case is OFFLOADED, deciding(case)
        texts = {remark.text for remark in has.by("schedule-overlap.reduce")}
        copied = " and its copy to the host" if offload else ""
        assert texts == {f"reduce-scatter{copied} is waited for behind its start"}
        said = {figures(r)["unit"] or "root": r for r in has.by("schedule-overlap.reduce")}
        sums = {
            one["unit"]: one["end_us"] - one["begin_us"]
            for one in has.collectives("reduce-scatter")
        }
        assert said.keys() == sums.keys()
        for unit, remark in said.items():
            us = float(figures(remark)["us"])
            assert us > sums[unit] + 0.05 if offload else us == pytest.approx(sums[unit], abs=0.051)


@claim("schedule-overlap.prefetch", of=Case("mesh=2", (), OWN))
def listed_gathers_start_where_a_unit_begins(decided: Decided) -> None:
    """In the plan's order: in front of the first operator of the unit in that region, and behind
    those of whatever came before."""
    commands = decided.commands()
    runs = [  # of operators of one module: where the first and the last one stand
        (module, group[0], group[-1])
        for module, group in (
            (key, [i for i, _ in lines])
            for key, lines in itertools.groupby(
                (one for one in enumerate(commands) if re.search(r" = aten::(?!_to_copy)", one[1])),
                key=lambda one: one[1].partition("  // ")[2],
            )
        )
    ]
    for unit, region, target, starts in decided.said(
        "schedule-overlap.prefetch", "unit", "region", "gathered", "text"
    ):
        of = [i for i, (module, *_) in enumerate(runs) if module == unit]
        at = of[0] if region == "forward" else of[-1]
        [gather] = [
            i
            for i, line in enumerate(commands)
            if f"unit '{target}', {region}" in line and " all_gather " in line
        ]
        before = runs[at - 1][2] if at else -1
        assert (before < gather < runs[at][1]) == starts.startswith("starts"), (
            unit,
            region,
            target,
        )

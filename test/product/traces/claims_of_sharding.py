"""What remarks claim of units, shards and their states, derived from the plan."""

from __future__ import annotations

import json
import math
import re
import runpy
import zipfile
from collections import Counter

from product.traces.claims import OFFLOADED, OWN, PLAIN, Case, Decided, bytes_of, claim, elements

TIED = Case("mesh=2 units=(tokens|head|blocks[.][0-9]+)", ("--model", "tied"))
NAMED = Case("mesh=2 units=class:Linear", (), OWN)
FLAT = Case(f"{PLAIN.options} shard-layout=flat bucket-cap-mib=0.002 non-finite=skip")
REPLICAS = Case("mesh=2x1 shard-layout=flat")
SUMMED = Case(
    "mesh=2", ("--model", "gpt", "--accumulate", "3", "--scaler", "--clip-norm", "1", "2")
)


@claim("assign-units.unit", of=OFFLOADED)
def units_have_their_parameters(decided: Decided) -> None:
    said = decided.said("assign-units.unit", "unit", "parameters", "bytes")
    assert {(unit or "root", count, size) for unit, count, size in said} == {
        (unit["unit"], unit["parameters"], unit["parameter_bytes"])
        for unit in decided.facts["units"]
    }


@claim("assign-units.tied", of=TIED)
def tied_parameters_go_to_the_root(decided: Decided) -> None:
    """The model says which names are one parameter, and the plan in which unit it is."""
    model = runpy.run_path(str(TIED.step_file))["MODELS"]["tied"]()[0]
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    tied = [of for of in names.values() if len({name.partition(".")[0] for name in of}) > 1]
    said = decided.said("assign-units.tied", "state")
    assert sorted(name for (name,) in said) == sorted(of[0] for of in tied)
    units = {state["name"]: state["unit"] for state in decided.states()}
    assert {units[name] for (name,) in said} == {"root"}


@claim("assign-units.units", of=NAMED)
def the_models_own_units_stay(decided: Decided) -> None:
    """As the archive has them, whatever the option says."""
    [remark] = decided.by("assign-units.units")
    assert remark.text.partition(" ")[0] in NAMED.options
    with zipfile.ZipFile(decided.compiled.archive) as archive:
        [record] = [name for name in archive.namelist() if name.endswith("fsdp.json")]
        named = json.loads(archive.read(record))["units"]
    assert len(named) == 4
    assert {unit["unit"] for unit in decided.facts["units"]} == {
        unit["name"] or "root" for unit in named
    }


@claim("shard-state.shard", "localize.localize", "offload-state.offload", of=OFFLOADED)
def states_are_split_and_moved(decided: Decided) -> None:
    states = {state["name"]: state for state in decided.facts["states"]}
    for name, dim, rows, part, padding in decided.said(
        "shard-state.shard", "state", "dimension", "rows", "rows_per_rank", "padding"
    ):
        assert states[name]["shape"][dim] == rows
        assert states[name]["rank_shape"][dim] == part
        assert 2 * part - rows == padding
    for name, whole, part in decided.said("localize", "state", "bytes", "bytes_per_rank"):
        assert 4 * elements(states[name]) == whole
        assert bytes_of(states[name]) == part
    moved = decided.said("offload-state", "state", "bytes_per_rank")
    on_host = {name: bytes_of(s) for name, s in states.items() if s["arena"] == "host"}
    assert dict(moved) == on_host


@claim("shard-state.one-rank", of=Case("mesh=1"))
def one_rank_has_everything(decided: Decided) -> None:
    assert decided.by("shard-state.one-rank")
    assert decided.facts["ranks"] == 1 and not any(s["sharded"] for s in decided.facts["states"])
    assert decided.step["collectives"] == []


@claim("flatten-state.flatten", "flatten-state.cut", of=FLAT)
def flat_parameters_hold_their_members(decided: Decided) -> None:
    """Of each unit: as many as its gathers, with the elements that are gathered. What is no padding
    is a parameter's."""
    keys = ("parameters", "optimizer_states", "elements", "elements_per_rank", "padding")
    flats = [
        (name.rpartition("/flat.")[0] or "root", *numbers)
        for name, *numbers in decided.said("flatten-state.flatten", "state", *keys)
    ]
    gathered = Counter(
        (one["unit"], one["bytes"])
        for one in decided.collectives("all-gather")
        if one["region"] == "forward"
    )
    assert Counter((unit, 4.0 * size) for unit, _, _, size, _, _ in flats) == gathered
    kept = Counter(name.rpartition("/")[2] for name in _names(decided, "optimizer"))
    for unit in decided.facts["units"]:
        of = [flat for flat in flats if flat[0] == unit["unit"]]
        assert sum(members for _, members, *_ in of) == unit["parameters"]
        own = sum(map(elements, decided.states(unit=unit["unit"])))
        assert own == sum(size - padding for *_, size, _, padding in of)
        assert all(2 * piece == size for *_, size, piece, _ in of)
        assert {optimizer for _, _, optimizer, *_ in of} == {len(kept)}
        cuts = decided.said("flatten-state.cut", "unit", "bytes", "buckets", "most_bytes")
        [(_, size, buckets, most)] = [cut for cut in cuts if (cut[0] or "root") == unit["unit"]]
        assert size == 4 * own and buckets == len(of)
        assert most == math.floor(0.002 * 2**20)
        for _, members, _, elements_, _, padding in of:
            assert 4 * (elements_ - padding) <= most or members == 1


def _names(decided: Decided, role: str) -> list[str]:
    return [state["name"] for state in decided.states(role)]


@claim("flatten-state.nothing", of=Case("mesh=1 shard-layout=flat"))
def nothing_is_flat_where_nothing_is_sharded(decided: Decided) -> None:
    assert decided.by("flatten-state.nothing")
    assert not any(state["sharded"] for state in decided.facts["states"])
    assert "/flat." not in decided.text


@claim("insert-grad-reduction.reduce", of=OFFLOADED)
def gradients_are_reduced(decided: Decided) -> None:
    said = decided.said("insert-grad-reduction.reduce", "state", "dtype")
    assert {r.text for r in decided.by("insert-grad-reduction")} == {"averaged over the ranks"}
    assert sorted(name for name, _ in said) == sorted(
        state["name"] for state in decided.states(trainable=True)
    )
    sums = decided.collectives("reduce-scatter")
    assert {dtype for _, dtype in said} == {"f32"} and {s["dtype"] for s in sums} == {"float32"}


@claim("insert-unshard.unshard", "lower-to-commands.copy", of=OFFLOADED)
def what_is_copied_into_a_bucket_is_what_is_gathered(decided: Decided) -> None:
    """In the layout of rows: each unit's parts before forward's gather, whatever their readers."""
    copies = [dict(remark.figures) for remark in decided.by("lower-to-commands.copy")]
    units = {unit["unit"]: unit for unit in decided.facts["units"]}
    said = decided.said("insert-unshard.unshard", "unit", "readers", "region")
    for name, unit in units.items():
        size = sum(map(bytes_of, decided.states(unit=name, trainable=True)))
        assert (str(unit["parameters"]), str(size)) in {(c["members"], c["bytes"]) for c in copies}
        readers = {region: count for u, count, region in said if (u or "root") == name}
        assert readers["forward"] >= unit["parameters"]
    gathered = {(one["unit"], one["region"]) for one in decided.collectives("all-gather")}
    assert {(u or "root", region) for u, _, region in said} == {
        (u, region) for u, region in gathered if region != "update"
    }


@claim("move-precision-casts.cast", of=Case("mesh=2", (), OWN))
def cast_parameters_are_gathered_in_the_type_of_their_cast(decided: Decided) -> None:
    """In the sharded IR: gathers of values of 16 bits, where all states have 32."""
    assert {state["dtype"] for state in decided.states()} == {"float32"}
    gathers = re.findall(
        r'shard\.all_gather .*fsdp\.unit = "(.*?)".* -> tensor<[\dx]*bf16>', decided.sharded
    )
    assert dict(decided.said("move-precision-casts.cast", "unit", "gathers")) == Counter(gathers)


@claim("accumulate-gradients.accumulate", of=SUMMED)
def gradients_are_summed(decided: Decided) -> None:
    """Each in a state of its own, which is whole on each rank until the last micro-batch."""
    keys = ("gradients", "bytes", "micro_batches")
    [numbers] = decided.said("accumulate-gradients.accumulate", *keys)
    sums = decided.states("gradient")
    assert len(sums) == len(decided.states(trainable=True))
    assert numbers == (
        len(sums),
        sum(map(bytes_of, sums)),
        decided.facts["micro_batches"],
    )

"""What remarks claim of updates, operators, recomputation and memory, derived from the plan."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from typing import Iterator

import pytest

from support import chain
from product.traces.claims import (
    OFFLOADED,
    OWN,
    PLAIN,
    Case,
    Decided,
    Deciding,
    claim,
    elements,
    figures,
    remarks_of,
)
from product.traces.claims_of_sharding import FLAT, SUMMED

MUON = Case("mesh=2", ("--model", "gpt", "--muon"))
GPU = Case("mesh=2 device=cuda")
BUDGET = Case(f"{PLAIN.options} remat=auto memory-budget-mib=0.08")
BYTES = {"float32": 4, "int64": 8, "bool": 1, "uint8": 1}
PASSES = chain.ROOT / "test" / "compiler" / "Transforms"


def _updates(decided: Decided) -> int:
    return sum(line.startswith("  0| update ") for line in decided.commands())


@claim("scale-loss.scale", "clip-gradients.norm", of=SUMMED)
def all_updates_follow_scale_and_norm(decided: Decided) -> None:
    [(scaled,)] = decided.said("scale-loss.scale", "updates")
    [(clipped, order)] = decided.said("clip-gradients.norm", "updates", "order")
    assert scaled == clipped == _updates(decided)
    assert order == SUMMED.flags[-1]


@claim("clip-values.value", of=Case("mesh=2", (), OWN))
def rules_begin_by_clamping(decided: Decided) -> None:
    """Their second operand, which is the gradient."""
    said = decided.said("clip-values.value", "rule")
    clamping = re.findall(
        r"^rule (\S+) of .*\n(?:  (?!%).*\n)*  %\d+ = aten::clamp\(%1, -0\.5, 0\.5\)",
        decided.text,
        re.MULTILINE,
    )
    assert sorted(name for (name,) in said) == sorted(clamping)


@claim("skip-non-finite.skip", of=FLAT)
def all_updates_may_be_skipped(decided: Decided) -> None:
    assert decided.said("skip-non-finite.skip", "updates") == [(_updates(decided),)]


@claim("agree-on-skips.skip", of=None)
def updates_without_gradients_are_left_out(deciding: Deciding) -> None:
    """In the sharded IR: those that have a number which says so."""
    given = [PASSES / "Shard" / "agree-on-skips.mlir", "--fsdp-shard=mesh=2"]
    [said] = [r for r in remarks_of(given, deciding.new_folder) if r.by == "fsdp-agree-on-skips"]
    text = chain.command([chain.binary("fsdp-opt"), *given]).stdout
    assert int(figures(said)["updates"]) == len(re.findall(r"fsdp\.update .* skip %", text)) == 2


@claim("plan-memory.arena", of=OFFLOADED)
def memory_is_what_was_planned(decided: Decided) -> None:
    """The remark counts what lies behind the states."""
    for name, planned, least, apart in decided.said(
        "plan-memory.arena", "arena", "arena_bytes", "least_bytes", "bytes_without_reuse"
    ):
        [arena] = [a["bytes"] for a in decided.facts["arenas"] if a["name"] == name]
        live = decided.step["memory"][name]["live_bytes"]
        assert arena - planned == live - least
        assert 0 <= least <= planned < apart


@claim("plan-memory.copy", of=None)
def what_communication_cannot_send_is_cloned(deciding: Deciding) -> None:
    """In IR of a transposed operand: the clone that is there behind the pass, and its bytes."""
    parts = (PASSES / "Lower" / "plan-memory.mlir").read_text().split("// -----")
    [part] = [part for part in parts if "// COPY:" in part]
    source = deciding.new_folder("copy") / "part.mlir"
    source.write_text(part)
    given = [source, "--fsdp-plan-memory"]
    [said] = [r for r in remarks_of(given, deciding.new_folder) if r.name == "copy"]
    text = chain.command([chain.binary("fsdp-opt"), *given]).stdout
    [sizes] = re.findall(r'aten\.call "clone"\(.*-> tensor<([\dx]+)xf32>', text)
    assert int(figures(said)["bytes"]) == 4 * math.prod(map(int, sizes.split("x")))


@claim("insert-grad-reduction.copy", of=None)
def gradients_that_lie_otherwise_are_cloned(deciding: Deciding) -> None:
    """In the sharded IR: the clones that gradients are reduced from."""
    passes = ["--fsdp-assign-units", "--fsdp-shard-state=mesh=2", "--fsdp-insert-grad-reduction"]
    given = [PASSES / "Inputs" / "mlp.mlir", *passes]
    said = [r for r in remarks_of(given, deciding.new_folder) if r.name == "copy"]
    text = chain.command([chain.binary("fsdp-opt"), *given]).stdout
    cloned = re.findall(r'aten\.call "clone"\(.*-> tensor<([\dx]+)xf32>', text)
    assert len(cloned) == len(said) > 0
    assert sum(int(figures(one)["bytes"]) for one in said) == 4 * sum(
        math.prod(map(int, sizes.split("x"))) for sizes in cloned
    )


@claim("remat-activations.recompute", of=OFFLOADED)
def backward_repeats_as_many_ops(decided: Decided) -> None:
    said = decided.said("remat-activations.recompute", "repeated")
    repeated = [line for line in decided.text.splitlines() if " recomputed" in line]
    assert len(repeated) == sum(count for (count,) in said)


def _held_bytes(decided: Decided, module: str) -> int:
    """What a plan keeps from forward to backward because of a module: what its operators give and
    backward reads, and what its repeated operators are computed from."""
    sizes = {
        value: elements({"shape": [int(n) for n in re.findall(r"\d+", shape)]}) * BYTES[dtype]
        for value, dtype, shape in re.findall(r"^  (%\d+): (\w+) \[(.*?)\]", decided.text, re.M)
    }
    commands = [line for line in decided.commands() if " = " in line and "aten::" in line]
    loss = re.search(r"^  output loss = (%\d+)$", decided.text, re.MULTILINE)[1]
    [end] = [i for i, line in enumerate(commands) if re.search(rf"{loss}\b.* = aten::", line)]
    roots: dict[str, str] = {}  # of views, and of what operators of forward give: itself
    made: dict[str, bool] = {}  # by an operator of the module
    held = set()
    for i, line in enumerate(commands):
        code, _, path = line.partition("  // ")
        results, operands = (re.findall(r"%\d+", part) for part in code.split(" = ", 1))
        read = {roots[value] for value in operands if value in roots}
        inside = (path + ".").startswith(module + ".")
        if " view aten::" in code:
            roots |= {value: root for value in results for root in read}
        elif i <= end:
            roots |= {value: value for value in results}
            made |= {value: inside for value in results}
        else:
            repeats = code.endswith(" recomputed") and inside
            held |= {root for root in read if made[root] or repeats}
    return sum(sizes[root] for root in held)


@claim("remat-activations.auto", "remat-activations.choose", of=None)
def recomputing_takes_and_frees_as_much(deciding: Deciding) -> None:
    chosen = deciding(BUDGET)
    said = chosen.said("remat-activations.choose", "recomputed", "freed_bytes", "us")
    choices = [remark.taken for remark in chosen.by("remat-activations.choose")]
    taken = [float(us) for (_, _, us), is_taken in zip(said, choices) if is_taken]
    assert 0 < len(taken) < len(said) == 3
    assert sum(taken) == pytest.approx(1e6 * chosen.scheduled["recomputed_seconds"], abs=0.051)
    every = deciding(Case(f"{PLAIN.options} remat=full"))
    assert sum(float(us) for *_, us in said) == pytest.approx(
        1e6 * every.scheduled["recomputed_seconds"], abs=0.2
    )
    for name, freed, _ in said:
        held = [_held_bytes(decided, name) for decided in (deciding(PLAIN), every)]
        assert held[0] - held[1] == freed, name
    keys = ("peak_bytes", "step_us", "kept_peak_bytes")
    [(peak, us, before)] = chosen.said("remat-activations.auto", *keys)
    assert float(us) == pytest.approx(1e6 * chosen.scheduled["predicted_seconds"], abs=0.051)
    # With the order of the schedule; places in the arena are of multiples of 64 bytes.
    [schedule] = [figures(remark) for remark in chosen.by("schedule-overlap.schedule")]
    assert peak == int(schedule["peak_bytes"]) <= 0.08 * 2**20 < before


@claim("verify-commands.meaning", of=OFFLOADED)
def what_is_meant_is_proved(decided: Decided) -> None:
    """All outputs, buffers, gradients and updates, none of which the checker leaves out."""
    [said] = [figures(remark) for remark in decided.by("verify-commands.meaning")]
    assert int(said["covered"]) == decided.step["meaning"]["covered"]


@claim("select-kernels.attention", "select-kernels.optimizer", of=GPU)
def gpus_have_the_kernels(decided: Decided) -> None:
    """The operators that the plan calls, in the step and in its rules."""
    kernels = Counter(r.text.partition(";")[0] for r in decided.by("select-kernels.attention"))
    called = re.findall(r"aten::_scaled_dot_product_(\w+)_attention\(", decided.text)
    assert kernels == Counter(called) and len(called) == 3
    rules = re.findall(r"^rule (\S+) of .*\n(?:  .*\n)*?.*aten::(_fused_\w+)", decided.text, re.M)
    assert {r.function: r.text for r in decided.by("select-kernels.optimizer")} == dict(rules)


@claim("select-kernels.cross-entropy", "choose-kernels.cross-entropy", of=None)
def cross_entropies_are_one_kernel(deciding: Deciding) -> None:
    """As many as are called, of logits of these types."""
    file = PASSES / "Device" / "select-kernels-cross-entropy.mlir"
    table = PASSES / "Inputs" / "kernels.toml"
    fast = f"kernels=fast kernel-table={table} cluster=h100x8"
    passes = {"--fsdp-select-kernels=device=cuda": 4, f"--fsdp-choose-kernels={fast}": 1}
    for given, count in passes.items():
        remarks = remarks_of([file, given], deciding.new_folder)
        said = [figures(remark)["logits"] for remark in remarks if remark.name == "cross-entropy"]
        text = chain.command([chain.binary("fsdp-opt"), file, given]).stdout
        called = re.findall(r'"fsdp_mlir::cross_entropy"\(.* : \(tensor<[\dx]*x(\w+)>', text)
        assert said == called and len(called) == count


@claim("choose-kernels.kernel", "choose-kernels.kernels", of=None)
def the_fastest_kernels_are_chosen(deciding: Deciding) -> None:
    """By the table that they are chosen from. ATen's stays where another one is less than 3 %
    faster."""
    table = PASSES / "Inputs" / "kernels.toml"
    options = f"kernels=fast kernel-table={table} cluster=h100x8"
    given = [PASSES / "Captured" / "choose-kernels.mlir", f"--fsdp-choose-kernels={options}"]
    remarks = remarks_of(given, deciding.new_folder)
    products = tomllib.loads(table.read_text())["products"]
    each = [remark for remark in remarks if remark.name == "kernel"]
    assert {remark.taken for remark in each} == {False, True}
    sums: Counter[str] = Counter()
    for remark in each:
        said = figures(remark)
        times = products.get(said["product"], {})
        if not remark.taken:
            assert "aten" not in times
            continue
        sums["products"] += 1
        fastest = min(times.values())
        aten = times["aten"]
        best = aten if fastest > 0.97 * aten else fastest
        assert float(said["us"]) == pytest.approx(1e6 * best, abs=0.051)
        assert float(said["aten_us"]) == pytest.approx(1e6 * aten, abs=0.051)
        assert times[re.sub(r"\W.*", "", remark.text)] == best
        sums["chosen"] += best < aten
        sums["us"] += 1e6 * best
        sums["aten_us"] += 1e6 * aten
    totals: Counter[str] = Counter()
    for remark in remarks:
        if remark.name == "kernels":
            totals.update({name: float(value) for name, value in remark.figures})
    totals["products"] -= sum(not remark.taken for remark in each)
    assert totals == pytest.approx(sums, abs=0.2)


def _products(decided: Decided) -> Iterator[int]:
    """Operations of the matrix products in bfloat16, which an orthogonalised momentum alone is,
    that the first rank computes."""
    shapes = {
        value: tuple(map(int, sizes.split(", ")))
        for value, sizes in re.findall(r"^  (%\d+): bfloat16 \[([\d, ]+)\]", decided.text, re.M)
    }
    for line in decided.commands():
        product = re.search(r"(%\d+) = aten::(mm|addmm)\((.*)\)", line)
        if product and product[1] in shapes and not re.search(r" on shards? [1-9]", line):
            operands = [v for v in re.findall(r"%\d+", product[3]) if v in shapes][-2:]
            yield 2 * shapes[operands[0]][0] * shapes[operands[0]][1] * shapes[operands[1]][1]


@claim(
    "split-matrix-rules.matrices", "split-matrix-rules.round", "split-matrix-rules.shapes", of=MUON
)
def matrices_are_dealt_out(decided: Decided) -> None:
    """Each two of a shape are a round; of the shapes that are left over, two of several."""
    matrices = [s for s in decided.states(trainable=True) if len(s["shape"]) == 2]
    counts = Counter(tuple(state["shape"]) for state in matrices)
    left = [shape for shape, count in counts.items() if count % 2]
    [all_] = [figures(remark) for remark in decided.by("split-matrix-rules.matrices")]
    rounds = [figures(remark) for remark in decided.by("split-matrix-rules.round")]
    assert int(all_["matrices"]) == len(matrices) == sum(int(r["matrices"]) for r in rounds)
    assert int(all_["per_rank"]) == len(rounds)
    moved = [c for c in decided.step["collectives"] if c["kind"] == "all-to-all"]
    moved += [c for c in decided.collectives("all-gather") if c["region"] == "update"]
    assert sum(int(r["moved_bytes"]) for r in rounds) == sum(c["bytes"] for c in moved)
    assert {r["last_parameter"] for r in rounds} < {state["name"] for state in matrices}
    flops = sum(_products(decided))
    assert flops and float(all_["gflop_per_rank"]) == pytest.approx(flops / 1e9, abs=6e-4)
    [shapes] = [figures(remark) for remark in decided.by("split-matrix-rules.shapes")]
    assert int(shapes["matrices"]) == int(shapes["shapes"]) == len(left)
    together = [r for r in rounds if int(r["shapes"]) > 1]
    assert len(rounds) == sum(count // 2 for count in counts.values()) + len(left) - len(together)
    assert float(shapes["us"]) < float(shapes["us_apart"])

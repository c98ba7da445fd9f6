"""The sections of the page, each from the run's facts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Iterable

from .charts import line_chart
from .facts import Run
from .figures import is_number, median, of_bytes, of_time, values
from .html import Cell, Markup, folded, joined, left_out, listed, long_table, table, tag
from .timeline import Timeline

Json = dict[str, Any]


def title(run: Run) -> str:
    ranks = run.plan["ranks"]
    return f"{run.plan['source']} on {ranks} rank{'s' if ranks != 1 else ''}"


def tiles(run: Run, shown: Timeline) -> Markup:
    """What the run came to, in a few figures."""
    found: list[tuple[str, str, str]] = []
    if logged := [row["loss"] for row in run.rows if "loss" in row]:
        said = [f"{loss:.4f}" if is_number(loss) else "not finite" for loss in logged]
        found.append(("loss", said[-1], f"from {said[0]}, {len(logged):,} logged steps"))
    for key in ("tokens_per_s", "samples_per_s"):
        if (rate := median(run.rows, key)) is not None and rate > 0:
            found.append(
                (key.split("_")[0] + " per second", f"{rate:,.0f}", "all ranks, the median step")
            )
            break
    predicted = predicted_us(run)
    if (measured := median(run.rows, "step_ms")) is not None:
        note = f"predicted {of_time(predicted)} on {run.plan['cluster']}"
        found.append(("step", of_time(measured * 1000), note))
    else:
        found.append(("step, predicted", of_time(predicted), f"on {run.plan['cluster']}"))
    exposed = exposed_us(run)
    if (waited := median(run.rows, "exposed_comm_ms")) is not None:
        found.append(
            (
                "exposed communication",
                of_time(waited * 1000),
                f"a step; predicted {of_time(exposed)}",
            )
        )
    else:
        found.append(
            (
                "exposed, predicted",
                of_time(exposed),
                f"of {of_time(_of_step(run, 'communication_us'))} of communication",
            )
        )
    most = live_bytes(run)
    found.append(
        (
            "memory of a rank",
            of_bytes(arena_bytes(run)),
            f"{of_bytes(most)} in use at the peak",
        )
    )
    if peaks := values(run.rows, "memory_peak_bytes"):
        found.append(
            ("rank 0's process", of_bytes(max(peaks)), "resident at most, PyTorch included")
        )
    return tag(
        "dl",
        joined(
            tag("div", tag("dt", name), tag("dd", value), tag("dd", note, class_="note"))
            for name, value, note in found
        ),
        class_="tiles",
    )


def predicted_us(run: Run) -> float:
    """A step: all of its micro-batches."""
    return _of_step(run, "predicted_us")


def exposed_us(run: Run) -> float:
    return _of_step(run, "exposed_us")


def _of_step(run: Run, key: str) -> float:
    programs = run.plan["programs"]
    more = run.plan["micro_batches"] - 1
    last = sum(programs[name][key] for name in _turns(run))
    return last + (more * programs["accumulate"][key] if more else 0)


def _turns(run: Run) -> list[str]:
    """The programs that a step, or its last micro-batch, runs in turn."""
    programs, names = run.plan["programs"], ["step"]
    while following := programs[names[-1]].get("next"):
        names.append(following)
    return names


def programs_of_a_step(run: Run) -> list[str]:
    """A step's micro-batches run `accumulate`, but for the last."""
    return [*(["accumulate"] if run.plan["micro_batches"] > 1 else []), *_turns(run)]


def live_bytes(run: Run) -> int:
    """The most bytes in use of the device's arena in a step."""
    programs = run.plan["programs"]
    return max(programs[name]["memory"]["device"]["live_bytes"] for name in programs_of_a_step(run))


def arena_bytes(run: Run) -> int:
    return sum(arena["bytes"] for arena in run.plan["arenas"])


def progress(run: Run) -> Markup:
    def over_steps(key: str) -> list[tuple[float, float]]:
        return [(r["step"], r[key]) for r in run.rows if is_number(r.get(key))]

    charts = []
    if losses := over_steps("loss"):
        turns = sorted({key for row in run.rows for key in row if key.startswith("loss.")})
        lines = [("training", losses), ("evaluation", over_steps("eval_loss"))]
        lines += [(key.removeprefix("loss."), over_steps(key)) for key in turns]
        charts.append(line_chart("loss", "", lines))
    rate = next(
        (key for key in ("tokens_per_s", "samples_per_s") if any(values(run.rows, key))), None
    )
    if rate:
        charts.append(
            line_chart(
                "throughput", f"{rate.split('_')[0]} per second", [("throughput", over_steps(rate))]
            )
        )
    if times := over_steps("step_ms"):
        lines = [
            ("step", times),
            ("exposed communication", over_steps("exposed_comm_ms")),
            ("waiting for data, the slowest rank", over_steps("data_wait_ms")),
        ]
        charts.append(line_chart("time", "ms", lines))
    if norms := over_steps("grad_norm"):
        charts.append(line_chart("gradient norm", "", [("gradient norm", norms)]))
    if not charts:
        return tag("p", "No metrics were found.")
    return joined((tag("div", joined(charts), class_="charts"), _slowest_for_data(run)))


def _slowest_for_data(run: Run) -> Cell:
    """Which rank waits longest for its batches, where there are several."""
    slowest = Counter(row["data_wait_rank"] for row in run.rows if "data_wait_rank" in row)
    if not slowest:
        return ""
    [(rank, steps)] = slowest.most_common(1)
    waited = of_time(1000 * (median(run.rows, "data_wait_ms") or 0))
    return tag(
        "p",
        f"The slowest rank waits {waited} for its batches, in the median step; it is rank {rank} "
        f"in {steps:,} of {sum(slowest.values()):,} logged steps.",
    )


@dataclass
class Traffic:
    """A unit's collectives in a step, all micro-batches together, and what a rank sends in them."""

    collectives: int = 0
    gathers_forward: int = 0
    gathers_backward: int = 0
    reductions: int = 0
    sent: int = 0


def unit_traffic(run: Run) -> dict[str, Traffic]:
    found = {unit["unit"]: Traffic() for unit in run.plan["units"]}
    for program in programs_of_a_step(run):
        times = run.plan["micro_batches"] - 1 if program == "accumulate" else 1
        for c in run.plan["programs"][program]["collectives"]:
            if (own := found.get(c.get("unit"))) is None:
                continue
            gathers = c["kind"] == "all-gather"
            own.collectives += times
            own.gathers_forward += times * (gathers and c["region"] == "forward")
            own.gathers_backward += times * (gathers and c["region"] == "backward")
            own.reductions += times * (c["kind"] in ("reduce-scatter", "all-reduce"))
            own.sent += times * c["bytes_sent_per_rank"]
    return found


def _axis(axis: Json) -> str:
    """`4 (shard)`, or `4 (gpus: shard)` where its name is not its role."""
    names = dict.fromkeys((axis["name"], axis["role"]))
    return f"{axis['size']} ({': '.join(names)})"


def units(run: Run) -> Markup:
    mesh = " × ".join(map(_axis, run.plan["mesh"])) or "one rank"
    heads = (
        "unit",
        "parameters",
        "whole",
        "on a rank",
        "optimizer",
        "gathers forward",
        "backward",
        "reductions",
        "sent per step",
    )
    return joined(
        (
            tag(
                "p",
                "The mesh: ",
                mesh,
                ". A unit's parameters are gathered together before they are used, and its gradients reduced together.",
            ),
            long_table(heads, _unit_rows(run), tuple(range(1, 9))),
            *_parameters_by_unit(run.plan),
        )
    )


def _unit_rows(run: Run) -> list[tuple[Any, ...]]:
    traffic = unit_traffic(run)
    rows = []
    for unit in run.plan["units"]:
        own = traffic[unit["unit"]]
        rows.append(
            (
                unit["unit"],
                unit["parameters"],
                of_bytes(unit["parameter_bytes"]),
                of_bytes(unit["bytes_per_rank"]),
                of_bytes(unit["optimizer_bytes_per_rank"]),
                own.gathers_forward,
                own.gathers_backward,
                own.reductions,
                of_bytes(own.sent),
            )
        )
    return rows


def _parameters_by_unit(plan: Json) -> list[Cell]:
    """A folded table for each unit, of its parameters."""
    where = "what fsdp-translate --plan-to-json step.plan prints"
    members: dict[str, list[Json]] = {unit["unit"]: [] for unit in plan["units"]}
    for state in plan["states"]:
        if state["role"] == "parameter" and state.get("unit") in members:
            members[state["unit"]].append(state)
    folds: list[Cell] = [
        folded(
            f"{name}: {len(states):,} parameters" + left_out(states, where),
            table(
                ("parameter", "dtype", "shape", "on a rank", "arena"),
                [
                    (
                        s["name"],
                        s["dtype"],
                        _shape(s["shape"]),
                        _on_a_rank(s) + ("" if s["trainable"] else ", frozen"),
                        s["arena"],
                    )
                    for s in listed(states)
                ],
            ),
        )
        for name, states in listed([*members.items()])
    ]
    if unlisted := left_out([*members], where):
        folds.append(
            tag("p", f"The parameters of {len(members):,} units{unlisted}.", class_="note")
        )
    return folds


def _on_a_rank(state: dict[str, Any]) -> str:
    """Ranks hold flat parameters by elements, whichever member's these are."""
    if "flat" in state:
        return f"by elements, in {state['flat']}"
    return _shape(state["rank_shape"]) + ("" if state["sharded"] else ", all of it")


def _shape(shape: list[int]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def setting(run: Run) -> Markup:
    """What the run was."""
    plan = run.plan
    rows: list[tuple[str, Cell]] = [
        ("step file", plan["source"]),
        ("ranks", str(plan["ranks"])),
        ("device", plan["device"]),
        ("PyTorch", plan["torch_version"]),
        ("micro-batches of a step", str(plan["micro_batches"])),
        ("seed", str(plan["seed"])),
        ("priced on", plan["cluster"]),
        (
            "arenas",
            ", ".join(f"{a['name']} {of_bytes(a['bytes'])}" for a in plan["arenas"] if a["bytes"]),
        ),
    ]
    rows += [
        (f"{h['name']} of group {h['group']}", f"{h['value']:g}") for h in plan["hyperparameters"]
    ]
    if run.summary:
        rows.append(("steps run", f"{run.summary['steps']:,}"))
    parts: list[Cell] = [table(("what", "value"), rows)]
    if run.settings:
        parts.append(
            folded("settings of the driver", table(("setting", "value"), list(_flat(run.settings))))
        )
    parts.append(
        folded(
            "options of the compiler",
            table(("option", "value"), [(o["name"], o["value"]) for o in plan["options"]]),
        )
    )
    return joined(parts)


def _flat(settings: Json, prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, " ".join(map(str, value)) if isinstance(value, list) else str(value)


_NOT_COMPARED = (
    "It is not shown that {} computes what the sequential step does: the plan does not say what "
    "that step computes."
)


def certificate(run: Run) -> Markup:
    constraints = run.plan["constraints"]
    rows = [(f"C{c['number']}", c["name"], c["refuses"]) for c in constraints]
    meanings = {name: program["meaning"] for name, program in run.plan["programs"].items()}
    uncovered = [
        (name, row["what"], row["why"])
        for name, meaning in meanings.items()
        for row in meaning["uncovered"]
    ]
    covered = sum(meaning["covered"] for meaning in meanings.values())
    unknown = [name for name, meaning in meanings.items() if not meaning["compared"]]
    return joined(
        (
            tag(
                "p",
                "The plan ",
                tag("code", run.plan["plan"]),
                f" was checked again for this page, by its SHA-256 and for {len(rows)} constraints. It breaks none of them. Each rank checks it as well before it runs, and all ranks compare the digest. docs/checker.md says what is not proved.",
            ),
            tag(
                "p",
                f"{covered} outputs, buffers, gradients and updates are those of the sequential step (C34); {len(uncovered)} are not covered.",
            ),
            *([table(("program", "not covered", "why"), uncovered)] if uncovered else []),
            *(tag("p", _NOT_COMPARED.format(name)) for name in unknown),
            folded(
                f"the {len(rows)} constraints, and what each refuses",
                table(("", "name", "what is refused"), rows),
            ),
        )
    )

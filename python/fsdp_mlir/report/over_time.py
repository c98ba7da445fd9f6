"""What a step does over time: its schedule, what is exposed of it, and its memory."""

from __future__ import annotations

from typing import Any

from .facts import Run
from .figures import median, of_bytes, of_time, with_micro
from .html import Cell, Markup, joined, long_table, table, tag
from .sections import predicted_us, programs_of_a_step
from .timeline import Timeline
from .waits import waits

Json = dict[str, Any]
# Of a command that was predicted to be hidden.
_LINKS = (
    "its links are slower than predicted: with cluster=FILE, which has this machine’s, the "
    "scheduler may start it earlier"
)
_SMALLER = "smaller micro-batches, more of them in a step (accumulate)"
# Options of the compiler, and what a step file says itself.
_LESS_MEMORY = {
    "parameters": "more ranks; offload=params",
    "optimizer": "more ranks; offload=optimizer",
    "accumulated gradients": "more ranks; accumulate-reduce=each, which keeps a rank's parts alone",
    "gathered": "smaller units; reshard-after-forward=true; memory-budget-mib, which gathers later",
    "gradients": "smaller units",
    "inputs": _SMALLER,
    "activations": f"remat=selective, or full, which computes more of them twice; {_SMALLER}",
    "temporaries": _SMALLER,
}
# How many times a prediction a step may take before the page says what that means.
_FAR = 2


def _far_from_predicted(run: Run) -> str:
    measured, predicted = median(run.rows, "step_ms"), predicted_us(run) / 1000
    if not measured or not predicted or measured < _FAR * predicted:
        return ""
    return (
        f"The median step took {measured / predicted:.1f} times what is predicted: other programs use "
        f"the cores, or this machine is not the cluster {run.plan['cluster']} (docs/clusters.md). The "
        "order of what helps may be another one then."
    )


def schedule(run: Run, shown: Timeline, picture: Timeline) -> Markup:
    """`picture` is the part of `shown` that is drawn."""
    rows = [
        (bars.name, bars.step or "", of_time(bars.length / 1000), of_time(bars.exposed_ns / 1000))
        for bars in shown.processes
    ]
    keys = (
        "Keys, with the picture focused: ← → the bar before and after, ↑ ↓ another track, + − zoom, "
        "A D move, 0 all, Enter zooms to the bar."
    )
    canvas = tag(
        "div",
        tag(
            "canvas",
            id="timeline",
            tabindex="0",
            role="application",
            aria_label=f"Timeline of a step. {keys}",
            aria_describedby="bar",
        ),
        class_="canvas",
    )
    return joined(
        (
            tag("p", " ".join(_facts(run, shown, picture))),
            tag(
                "div", tag("span", _buttons(), class_="buttons"), " ", _legend(), class_="bar-tools"
            ),
            canvas,
            tag(
                "div",
                "Point at a bar, or focus the picture and press →.",
                id="bar",
                aria_live="polite",
            ),
            tag("p", keys, class_="note"),
            table(("shown", "step", "length", "exposed"), rows, numbers=(1, 2, 3)),
        )
    )


def _facts(run: Run, shown: Timeline, picture: Timeline) -> list[str]:
    """Sentences that say what the timeline shows, and what it leaves out."""
    facts = ["All ranks run one plan, so one prediction stands for all of them."]
    if run.measured:
        facts.append(
            f"Measured is step {shown.processes[-1].step}, the median of the traced ones on rank 0."
        )
    if far := _far_from_predicted(run):
        facts.append(far)
    where = "; trace.json has each" if run.measured else ""
    if picture.left_out:
        facts.append(f"Not drawn, to keep the page small: {', '.join(picture.left_out)}{where}.")
    if merged := max((bars.merged for bars in picture.processes), default=0):
        facts.append(
            "To keep the page small, neighbours on a track that together take at most "
            f"{of_time(merged / 1000)} are one bar{where}."
        )
    return facts


def _buttons() -> Markup:
    return joined(
        tag("button", label, type="button", data_do=action, aria_label=said)
        for label, action, said in (
            ("+", "in", "zoom in"),
            ("−", "out", "zoom out"),
            ("←", "left", "move to the left"),
            ("→", "right", "move to the right"),
            ("all", "all", "show the whole step"),
        )
    )


def _legend() -> Markup:
    return joined(
        tag("span", tag("i", class_=f"key {kind}"), " ", name, class_="entry")
        for kind, name in (
            ("kernel", "kernel"),
            ("update", "optimizer"),
            ("copy", "copy"),
            ("collective", "collective"),
            ("exposed", "waiting for communication"),
        )
    )


def exposed(run: Run, shown: Timeline) -> Markup:
    """What kept the compute stream, and what is predicted to, program by program."""
    parts: list[Cell] = [tag("p", "Communication that no compute hides.")]
    if run.measured:
        parts.append(_measured(run, shown))
    for name, program in run.plan["programs"].items():
        total = program["exposed_us"]
        parts.append(tag("h3", f"predicted on {run.plan['cluster']}: program {name}"))
        parts.append(
            tag(
                "p",
                f"{of_time(total)} of {of_time(program['predicted_us'])} are exposed; all communication takes {of_time(program['communication_us'])}. What a remedy saves is the difference of two predictions: the program is followed once more with that change. Remedies do not add up.",
            )
        )
        rows = [_exposure(entry) for entry in program["exposed"]]
        if rows:
            parts.append(long_table(("command", "exposed", "cause", "what would help"), rows, (1,)))
        if program["bounds"]:
            bounds = [
                (f"with {bound['what']}", f"−{of_time(bound['us'])}") for bound in program["bounds"]
            ]
            parts.append(table(("whatever the plan", "step"), bounds, numbers=(1,)))
    return joined(parts)


def _measured(run: Run, shown: Timeline) -> Markup:
    ranks = [bars.name for bars in shown.processes if bars.step]
    foreseen = {
        entry["name"]: entry
        for program in programs_of_a_step(run)
        for entry in run.plan["programs"][program]["exposed"]
    }
    rows: list[list[Cell]] = []
    for wait in waits(shown):
        mean, late = sum(wait.exposed) / len(ranks), wait.for_others / len(ranks)
        cause: Cell
        if late * 2 > mean:
            cause = f"most of it waits for {wait.last}, which comes later"
            remedy = (
                f"less to do for {wait.last}, or a host as fast as the others’ (fsdp-run --doctor)"
            )
            if wait.behind * 2 > wait.for_others / (len(ranks) - 1):
                cause += f": it begins its step {of_time(wait.behind / 1000)} after the first rank"
                remedy = (
                    f"batches that {wait.last} has sooner, as by more workers of its loader, and less "
                    "that it does between steps"
                )
            help_ = _up_to(remedy, late)
        else:
            cause = "most of it passes after all ranks have come"
            if entry := foreseen.get(wait.name):
                cause = joined((cause, "; predicted: ", tag("b", entry["cause"])))
            help_ = _help(entry) if entry else _up_to(_LINKS, mean - late)
        times = [of_time(ns / 1000) for ns in wait.exposed]
        predicted = of_time(wait.predicted / 1000)
        rows.append([wait.name, *times, predicted, of_time(late / 1000), cause, help_])
    waited = "until the last rank came (mean)"
    heads = ("command", *ranks, "predicted", waited, "cause", "what would help")
    title = tag("h3", f"measured in step {shown.processes[-1].step}")
    said = tag(
        "p",
        "Ranks that wait for a slower one show here: the machine is busy, or a rank has more to do.",
    )
    return joined((title, said, long_table(heads, rows, tuple(range(1, len(ranks) + 3)))))


def _up_to(remedy: str, nanoseconds: float) -> Markup:
    """A remedy that could save no more than what was measured."""
    return joined((remedy, ": up to ", tag("b", f"−{of_time(nanoseconds / 1000)}")))


def _exposure(entry: Json) -> list[Cell]:
    cause = joined((tag("b", entry["cause"]), ": ", with_micro(entry["why"])))
    return [entry["name"], of_time(entry["us"]), cause, _help(entry)]


def _help(entry: Json) -> Markup:
    """What the predictions say would help an exposed command."""
    remedies = [
        tag(
            "li",
            with_micro(remedy["what"]),
            ": ",
            tag("b", f"−{of_time(remedy['us'])}"),
            f", {of_bytes(remedy['bytes'])} more memory" if "bytes" in remedy else "",
            "; changes the numbers" if remedy.get("changes_numbers") else "",
        )
        for remedy in entry["remedies"]
    ]
    if remedies:
        return tag("ul", joined(remedies))
    return tag("span", "none of the options that were tried shortens the step", class_="note")


def memory(run: Run) -> Markup:
    parts: list[Cell] = [
        tag(
            "p",
            "What the plan's bytes are used for while a step runs, on every rank alike. Kernels' scratch and the process itself are not in it.",
        ),
        tag(
            "div",
            tag(
                "canvas",
                id="memory-picture",
                role="img",
                aria_label="Memory in use over a step, by kind; the table below has the peak",
            ),
            class_="canvas",
        ),
        tag("div", id="memory-legend", class_="legend"),
    ]
    programs = programs_of_a_step(run)
    for program in programs:
        for arena, peak in run.plan["programs"][program]["memory"].items():
            of = f" of program {program}" if len(programs) > 1 else ""
            parts.append(_peak(peak, f"the peak of the {arena} arena{of}"))
    return joined(parts)


def _peak(peak: Json, title: str) -> Markup:
    where = f" while “{peak['at']}” runs." if "at" in peak else " at the start."
    kinds = [
        (
            kind,
            of_bytes(size),
            f"{100 * size / peak['live_bytes']:.1f} %",
            _LESS_MEMORY.get(kind, ""),
        )
        for kind, size in sorted(peak["kinds"].items(), key=lambda item: -item[1])
    ]
    rows = [
        (
            t["kind"],
            of_bytes(t["bytes"]),
            t["name"],
            t["type"].replace(" ", "\u00a0"),
            t.get("module", ""),
            t.get("source", ""),
            t.get("until", ""),
        )
        for t in peak["tensors"]
    ]
    heads = ("kind", "bytes", "tensor", "type", "module", "line", "until")
    return joined(
        (
            tag("h3", title),
            tag("p", tag("b", of_bytes(peak["live_bytes"])), where),
            table(("kind", "bytes", "share", "what makes it less"), kinds, numbers=(1, 2)),
            long_table(heads, rows, (1,)),
        )
    )

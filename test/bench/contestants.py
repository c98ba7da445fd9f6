"""Who takes part: a table from names to what is run.

Names of this project's own are LAYOUT-SCHEDULE, with `-zero2` where whole parameters are kept from
forward to backward and `-copy` where gathers copy although they could map, as in
`flat-overlap-zero2`; `-fast` has the kernels that are the fastest here. `wire-SCHEDULE` has a slow network between its ranks.
"""

from __future__ import annotations

import dataclasses
from typing import Optional


@dataclasses.dataclass(frozen=True)
class Contestant:
    """`loop` names a loop of worker.py; `pipeline` the options of a plan for `ranks` ranks.

    `coupled`: the two ranks train one model, so that the losses of all steps, not of the first
    alone, are those of the other coupled contestants. `{kernels}` in a `pipeline` is the table of
    kernels, measured before the first turn. `throttled`: over a Wire; its `pipeline` has
    `{cluster}` for the file that describes it. `copies` of it run side by side; a rank computes
    with `threads`; `flags` are fsdp-run's own.
    """

    name: str
    label: str
    loop: Optional[str] = None
    pipeline: Optional[str] = None
    ranks: int = 2
    coupled: bool = True
    throttled: bool = False
    copies: int = 1
    threads: int = 1
    flags: tuple[str, ...] = ()


def _own(layout: str, schedule: str, zero: int, gather: str = "auto") -> Contestant:
    keep = "false" if zero == 2 else "auto"
    options = f"mesh=2 shard-layout={layout} schedule={schedule} reshard-after-forward={keep}"
    name, label = f"{layout}-{schedule}", f"fsdp-mlir {layout} {schedule}"
    if gather != "auto":
        name, label = f"{name}-{gather}", f"{label}, gather={gather}"
        options += f" gather={gather}"
    if zero == 2:
        name, label = f"{name}-zero2", f"{label}, ZeRO-2"
    return Contestant(name, label, pipeline=options)


def _fast(exact: Contestant) -> Contestant:
    return dataclasses.replace(
        exact,
        name=f"{exact.name}-fast",
        label=f"{exact.label}, kernels=fast",
        pipeline=f"{exact.pipeline} kernels=fast kernel-table={{kernels}}",
    )


SCHEDULES = ("overlap", "fsdp2", "naive")

ONE_RANK = Contestant(
    "one-rank",
    "fsdp-mlir unsharded, one a core",
    pipeline="mesh=1",
    ranks=1,
    coupled=False,
    copies=2,
)

# A network has no mapped gathers.
_WIRED = "mesh=2 shard-layout=flat gather=copy schedule="

# What the throttled ones are compared with: their steps without what communication costs.
WIRE_FREE = Contestant("wire-free", "no wire", pipeline=_WIRED + "naive")

WIRED = {
    schedule: Contestant(
        f"wire-{schedule}",
        f"throttled, {schedule}",
        pipeline=f"{_WIRED}{schedule} cluster={{cluster}}",
        throttled=True,
    )
    for schedule in SCHEDULES
}

CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant("fsdp2", "FSDP2 eager", "fsdp2"),
        Contestant("fsdp2-zero2", "FSDP2 eager, ZeRO-2", "fsdp2-zero2"),
        Contestant("fsdp2-compile", "FSDP2 torch.compile", "fsdp2-compile"),
        Contestant("ddp", "DDP", "ddp"),
        Contestant("eager", "unsharded eager, one a core", "eager", coupled=False),
        Contestant("graph", "the graph's operators alone", "graph", coupled=False),
        ONE_RANK,
        *(
            _own(layout, schedule, zero)
            for zero in (3, 2)
            for layout in ("dim0", "flat")
            for schedule in SCHEDULES
        ),
        _own("flat", "overlap", 3, gather="copy"),
        _fast(_own("flat", "overlap", 3)),
        _fast(ONE_RANK),
    )
}

# Ours for the goals: the first of these that takes part.
HEADLINE = ("flat-overlap", "flat-naive", "dim0-overlap", "dim0-naive")

DEFAULT = (
    "fsdp2",
    "fsdp2-zero2",
    "fsdp2-compile",
    "ddp",
    "eager",
    "graph",
    "one-rank",
    "dim0-overlap",
    "flat-naive",
    "flat-fsdp2",
    "flat-overlap",
    "flat-overlap-copy",
    "flat-overlap-zero2",
)

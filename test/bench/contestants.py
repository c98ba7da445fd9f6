"""Who takes part: a table from names to what is run.

Names of this project's own are LAYOUT-SCHEDULE, with `-zero2` where whole parameters are kept from
forward to backward, as in `flat-overlap-zero2`.
"""

from __future__ import annotations

import dataclasses
from typing import Optional


@dataclasses.dataclass(frozen=True)
class Contestant:
    """`loop` names a loop of worker.py; `pipeline` the options of a plan for `ranks` ranks.

    `coupled`: the two ranks train one model, so that the losses of all steps, not of the first
    alone, are those of the other coupled contestants.
    """

    name: str
    label: str
    loop: Optional[str] = None
    pipeline: Optional[str] = None
    ranks: int = 2
    coupled: bool = True


def _own(layout: str, schedule: str, zero: int) -> Contestant:
    keep = "false" if zero == 2 else "auto"
    options = f"mesh=2 shard-layout={layout} schedule={schedule} reshard-after-forward={keep}"
    suffix = "-zero2" if zero == 2 else ""
    label = f"fsdp-mlir {layout} {schedule} ZeRO-{zero}"
    return Contestant(f"{layout}-{schedule}{suffix}", label, pipeline=options)


CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant("fsdp2", "FSDP2 eager", "fsdp2"),
        Contestant("fsdp2-zero2", "FSDP2 eager, ZeRO-2", "fsdp2-zero2"),
        Contestant("fsdp2-compile", "FSDP2 torch.compile", "fsdp2-compile"),
        Contestant("ddp", "DDP", "ddp"),
        Contestant("eager", "unsharded eager, one a core", "eager", coupled=False),
        Contestant("graph", "the graph's operators alone", "graph", coupled=False),
        Contestant(
            "one-rank", "fsdp-mlir unsharded, one a core", pipeline="mesh=1", ranks=1, coupled=False
        ),
        *(
            _own(layout, schedule, zero)
            for zero in (3, 2)
            for layout in ("dim0", "flat")
            for schedule in ("naive", "fsdp2", "overlap")
        ),
    )
}

# Ours for the goals: the first of these that takes part.
HEADLINE = ("flat-overlap", "dim0-overlap", "flat-naive", "dim0-naive")

DEFAULT = (
    "fsdp2",
    "fsdp2-compile",
    "ddp",
    "eager",
    "graph",
    "one-rank",
    "dim0-naive",
    "dim0-overlap",
    "flat-naive",
    "flat-fsdp2",
    "flat-overlap",
    "flat-overlap-zero2",
)

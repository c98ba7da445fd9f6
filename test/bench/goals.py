"""What the project sets out to reach, and whether it does: a table."""

from __future__ import annotations

import dataclasses
from typing import Callable, Optional, Sequence

from bench.figures import Figures, ratio

# Of FSDP2's ratio, a tenth less will do.
LEAST = 0.9
# The contestant whose kernels are the fastest on the machine at hand.
FAST = "flat-overlap-fast"


@dataclasses.dataclass(frozen=True)
class Row:
    """`figure` is at least (`at_least`) or at most `bound`; `enough` is where "nearly" begins."""

    what: str
    figure: float
    bound: float
    at_least: bool = False
    enough: Optional[float] = None
    digits: int = 2

    @property
    def limit(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"

    @property
    def shown(self) -> str:
        return f"{self.figure:.{self.digits}f}"

    @property
    def verdict(self) -> str:
        sign = -1 if self.at_least else 1
        if sign * self.figure <= sign * self.bound:
            return "met"
        if self.enough is not None and sign * self.figure <= sign * self.enough:
            return "nearly"
        return "NOT met"


@dataclasses.dataclass(frozen=True)
class Goal:
    """`figure` of a model's figures and its headline's, or None where it was not measured;
    `bound` is one number, or the name of one of the model's, which need not have it."""

    what: str
    figure: Callable[[Figures, Figures], Optional[float]]
    bound: float | str
    at_least: bool = False
    enough: float = 1.0
    digits: int = 2

    def row(self, model: Figures) -> Optional[Row]:
        own = model["contestants"].get(model["headline"])
        figure = self.figure(model, own) if own else None
        if figure is None:
            return None
        bound = model["goals"].get(self.bound) if isinstance(self.bound, str) else self.bound
        if bound is None:
            return None
        enough = bound * self.enough if self.enough != 1.0 else None
        return Row(self.what, figure, bound, self.at_least, enough, self.digits)


def _against_fsdp2(bytes_of: Callable[[Figures], int]) -> Callable:
    def figure(model: Figures, own: Figures) -> Optional[float]:
        theirs = model["contestants"].get("fsdp2", {})
        return bytes_of(own) / bytes_of(theirs) if "peak_bytes" in theirs else None

    return figure


def _overlapped(model: Figures, own: Figures) -> Optional[float]:
    schedules = model.get("overlap", {}).get("schedules", {})
    return schedules.get("overlap", {}).get("by_compute")


GOALS = (
    Goal(
        "step time, FSDP2 eager ÷ ours",
        lambda model, own: ratio(model, "fsdp2", model["headline"]),
        "fsdp2",
        at_least=True,
        enough=LEAST,
    ),
    Goal(
        "step time, ours ÷ the graph's operators and half the optimizer",
        lambda model, own: ratio(model, model["headline"], "graph"),
        "graph",
    ),
    Goal(
        "step time, ours ÷ unsharded eager",
        lambda model, own: ratio(model, model["headline"], "eager"),
        "eager",
    ),
    Goal(
        "kernels=fast: step time, FSDP2 eager ÷ ours",
        lambda model, own: ratio(model, "fsdp2", FAST),
        "fsdp2-fast",
        at_least=True,
        enough=LEAST,
    ),
    Goal(
        "kernels=fast: step time, ours ÷ unsharded eager",
        lambda model, own: ratio(model, FAST, "eager"),
        "eager-fast",
    ),
    Goal("step ÷ compute, communication throttled to equal compute", _overlapped, "overlap"),
    Goal(
        "bytes copied for communication in a step", lambda _, own: own["copied_bytes"], 0, digits=0
    ),
    Goal(
        "bytes allocated in a step outside arena and scratch",
        lambda _, own: own["allocated_bytes"],
        0,
        digits=0,
    ),
    Goal(
        "planned ÷ largest sum of live bytes",
        lambda _, own: own["planned_bytes"] / own["live_bytes"],
        1.02,
        digits=3,
    ),
    Goal(
        "process peak above an idle process, ours ÷ FSDP2",
        _against_fsdp2(lambda figures: figures["peak_bytes"] - figures["idle_bytes"]),
        0.8,
    ),
    Goal("process peak, ours ÷ FSDP2", _against_fsdp2(lambda figures: figures["peak_bytes"]), 0.5),
)


def rows(model: Figures, goals: Sequence[Goal] = GOALS) -> list[Row]:
    """The goals that were measured, in the order of the table."""
    return [row for row in (goal.row(model) for goal in goals) if row]

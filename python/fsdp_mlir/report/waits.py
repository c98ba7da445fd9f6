"""Measured exposed communication by its cause: which collectives, and for whom they waited."""

from __future__ import annotations

from dataclasses import dataclass

from .timeline import Bars, Timeline


@dataclass
class Wait:
    """What one command kept the compute streams of all ranks in a step; ns.

    Attributes:
        exposed: by rank, in the order of the timeline.
        for_others: of their sum, until the last rank had come to the collective.
        last: the rank that most of that was for, or "".
        behind: how much later than the first rank that one began its step.
        predicted: exposed time of this command in the prediction.
    """

    name: str
    exposed: list[int]
    for_others: int = 0
    last: str = ""
    behind: int = 0
    predicted: int = 0


def waits(shown: Timeline) -> list[Wait]:
    """The waits of the measured step, the longest first."""
    ranks = [bars for bars in shown.processes if bars.step]
    begins = [_begins(bars, shown) for bars in ranks]
    first = {bars.name: _first_of(bars) for bars in ranks}
    found: dict[str, Wait] = {}
    blamed: dict[str, dict[str, int]] = {}
    for i, bars in enumerate(ranks):
        for begin, length, row in _exposed(bars, shown):
            name = shown.commands[row]["for"]
            wait = found.setdefault(name, Wait(name, [0] * len(ranks)))
            wait.exposed[i] += length
            # The last of all ranks to start what this one waits for, in the same run of it.
            run = _latest_before(begins[i].get(name, []), begin + length)
            starts = [
                b[name][run] for b in begins if run is not None and len(b.get(name, [])) > run
            ]
            if len(starts) == len(ranks):
                late = max(0, min(max(starts), begin + length) - begin)
                who = ranks[starts.index(max(starts))].name
                wait.for_others += late
                blamed.setdefault(name, {}).setdefault(who, 0)
                blamed[name][who] += late
    for name, by_rank in blamed.items():
        if found[name].for_others:
            found[name].last = max(by_rank, key=lambda rank: by_rank[rank])
            found[name].behind = first[found[name].last] - min(first.values())
    for bars in shown.processes:
        if not bars.step:
            for _, length, row in _exposed(bars, shown):
                if (wait := found.get(shown.commands[row]["for"])) is not None:
                    wait.predicted += length
    return sorted(found.values(), key=lambda wait: -sum(wait.exposed))


def _exposed(bars: Bars, shown: Timeline) -> list[tuple[int, int, int]]:
    return [
        bar for _, lane in bars.lanes for bar in lane if shown.commands[bar[2]]["kind"] == "exposed"
    ]


def _first_of(bars: Bars) -> int:
    return min((begin for _, lane in bars.lanes for begin, _, _ in lane), default=0)


def _begins(bars: Bars, shown: Timeline) -> dict[str, list[int]]:
    """The times at which this rank started each collective, run by run."""
    begins: dict[str, list[int]] = {}
    for _, lane in bars.lanes:
        for begin, _, row in lane:
            if shown.commands[row]["kind"] == "collective":
                begins.setdefault(shown.commands[row]["name"], []).append(begin)
    return {name: sorted(times) for name, times in begins.items()}


def _latest_before(times: list[int], moment: int) -> int | None:
    before = [i for i, time in enumerate(times) if time <= moment]
    return before[-1] if before else None

"""Tells a scheduler that counts epochs and is stepped behind each step, as its table shows."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence

from ..errors import warn

# What PyTorch's schedulers call the lengths that they count to.
_COUNTS = (
    "step_size milestones _milestones total_iters T_max T_0 total_size total_steps anneal_epochs"
).split()
# A rate that is smaller by this is none, for most of a run.
_VANISHED = 1e-3

MEND = (
    'give TrainingStep lr_schedule_every="epoch" if it counts epochs, and lr_schedule_every="step" '
    "if this is meant"
)


def warn_of_epochs(schedule: Any, rates: Sequence[Sequence[float]], epochs: Optional[int]) -> None:
    """Warns where the numbers of a scheduler look like epochs.

    Args:
        schedule: a scheduler of PyTorch, which is stepped behind each step.
        rates: the rates that it sets, by step and group.
        epochs: the length of the run, where it is given in epochs.
    """
    steps, counts = len(rates), list(_counts_of(schedule))
    if steps < 2:
        return
    if epochs is not None and counts and max(counts) <= epochs < steps:
        what = (
            f"counts to {max(counts)}, and the run has {epochs} epochs of {steps // epochs} steps "
            "on one rank"
        )
    elif counts and all(row == rates[0] for row in rates):
        what = f"changes no rate in the {steps} steps of the run"
    elif (vanished := _vanished(rates)) > steps // 2:
        what = (
            f"leaves less than a thousandth of the largest rate in {vanished} of the {steps} steps "
            "of the run"
        )
    else:
        return
    name = type(schedule).__name__
    warn(f"lr_schedule is a {name}, which {what}; it is stepped behind each step: {MEND}")


def _counts_of(schedule: Any) -> Iterator[int]:
    for name in _COUNTS:
        value = getattr(schedule, name, ())
        for count in value if hasattr(value, "__iter__") else (value,):
            yield int(count)
    for part in getattr(schedule, "_schedulers", ()):
        yield from _counts_of(part)


def _vanished(rates: Sequence[Sequence[float]]) -> int:
    largest = max(map(max, rates))
    return sum(max(row) < largest * _VANISHED for row in rates)

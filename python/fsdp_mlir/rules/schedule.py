"""Runs a schedule ahead of the training, and keeps what it sets as a table.

A schedule is a function of the step alone, so that all its numbers are known at export: learning
rates, and what else it changes, such as momentum.
"""

from __future__ import annotations

import copy
import math
import warnings
from array import array
from dataclasses import dataclass
from typing import Any, Optional, Sequence

import torch

from ..errors import E, ExportError, note
from .epoch_counts import MEND, warn_of_epochs
from ..step.optimizer_list import parts_of
from ..step.process_groups import world_size
from ..step.training_step import TrainingStep, is_schedulers

# What schedulers keep in a group beside what they change.
OF_SCHEDULERS = (
    "initial_lr",
    "max_lr",
    "min_lr",
    "max_momentum",
    "base_momentum",
    "swa_lr",
)
Column = tuple[int, str]


@dataclass
class Schedule:
    """Numbers of parameter groups that change from step to step.

    Attributes:
        columns: a group, and the number's name there: "lr", "momentum"; "betas.0" is the first of
            the group's `betas`. Every group's learning rate is among them.
        rows: their values, by step.
    """

    columns: list[Column]
    rows: list[list[float]]

    def part(self, first: int, groups: int) -> Schedule:
        """The numbers of `groups` groups from `first` on, as those of an optimizer of its own."""
        own = [i for i, (group, _) in enumerate(self.columns) if first <= group < first + groups]
        columns = [(self.columns[i][0] - first, self.columns[i][1]) for i in own]
        return Schedule(columns, [[row[i] for i in own] for row in self.rows])

    def describe(self) -> dict[str, Any]:
        columns = [{"group": group, "name": name} for group, name in self.columns]
        return {"columns": columns, "rows": self.rows}


def constant_rates(optimizer: Any) -> Schedule:
    """The numbers that may change where nothing is scheduled: the learning rates."""
    for index, group in enumerate(optimizer.param_groups):
        if group.get("lr") is None:
            raise ExportError(
                E.OPTIMIZER,
                f"parameter group {index} of the optimizer has no learning rate, and each group of "
                'a plan has one; set its "lr", to 0.0 where the optimizer computes its own',
            )
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    return Schedule([(index, "lr") for index in range(len(rates))], [rates])


def read_schedule(step: TrainingStep) -> Optional[Schedule]:
    """The step's `lr_schedule`; None: there is none.

    It has a row for each of `steps`, or as many as one rank takes in `epochs` (more ranks take
    fewer steps and use its beginning). A scheduler object is stepped once per step, or per epoch
    where `lr_schedule_every` says so, on the optimizer itself, whose numbers are put back
    afterwards, as is the scheduler.

    Raises:
        ExportError: no length is given, or the scheduler needs what only a run knows.
    """
    if step.lr_schedule is None:
        return None
    rows, every = _steps_of_run(step), _steps_between(step)
    counted = _read_counted(step, -(-rows // every))
    _require_finite(counted)
    repeated = [row for row in counted.rows for _ in range(every)]
    return Schedule(counted.columns, repeated[:rows])


def _require_finite(schedule: Schedule) -> None:
    for number, row in enumerate(schedule.rows):
        for (group, name), value in zip(schedule.columns, row):
            if not math.isfinite(value):
                raise ExportError(
                    E.SCHEDULE,
                    f"lr_schedule sets {name} of parameter group {group} to {value} when it has "
                    f"been stepped {number} times; a schedule gives finite numbers",
                )


def _steps_of_run(step: TrainingStep) -> int:
    if step.steps is not None:
        return step.steps
    per_epoch = step.steps_per_epoch(ranks=1)
    if step.epochs is None or per_epoch is None:
        raise ExportError(
            E.SCHEDULE, "lr_schedule is given without a length; give epochs or steps as well"
        )
    return step.epochs * per_epoch


def _steps_between(step: TrainingStep) -> int:
    """How many steps have the same numbers: one, or those of an epoch."""
    if step.lr_schedule_every != "epoch":
        return 1
    ranks = world_size() or 1
    per_epoch = step.steps_per_epoch(ranks)
    if not per_epoch:
        raise ExportError(
            E.SCHEDULE,
            f'lr_schedule_every is "epoch", and on {ranks} ranks an epoch has no steps that can be '
            "counted; give data that has a length and fills a step, or a schedule of steps",
        )
    note(
        f"lr_schedule changes behind each epoch, which is {per_epoch} steps on {ranks} "
        f"rank{'' if ranks == 1 else 's'} (the environment's WORLD_SIZE)"
    )
    return per_epoch


def _factor(value: Any, row: int) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ExportError(
            E.SCHEDULE,
            f"lr_schedule({row}) gives {type(value).__name__}; return the number that the learning "
            "rates are multiplied with",
        ) from error


def _read_counted(step: TrainingStep, rows: int) -> Schedule:
    """The schedule with a row for each time that it is stepped."""
    schedule = step.lr_schedule
    if not is_schedulers(schedule):
        constant = constant_rates(step.optimizer)
        factors = [_factor(schedule(row), row) for row in range(rows)]
        return Schedule(
            constant.columns, [[rate * factor for rate in constant.rows[0]] for factor in factors]
        )
    parts, first = parts_of(step.optimizer), 0
    tables = []
    left = list(schedule) if isinstance(schedule, (list, tuple)) else [schedule]
    for part in parts:
        own = [scheduler for scheduler in left if scheduler.optimizer is part]
        left = [scheduler for scheduler in left if scheduler.optimizer is not part]
        if len(own) > 1:
            raise ExportError(
                E.SCHEDULE, "lr_schedule has two schedulers of one optimizer; use ChainedScheduler"
            )
        table = (
            _run_scheduler(own[0], part.param_groups, rows, step)
            if own
            else Schedule((constant := constant_rates(part)).columns, constant.rows * rows)
        )
        tables.append(Schedule([(first + g, name) for g, name in table.columns], table.rows))
        first += len(part.param_groups)
    if left:
        raise ExportError(
            E.SCHEDULE, "lr_schedule belongs to another optimizer; make it with this one"
        )
    columns = [column for table in tables for column in table.columns]
    rows_of_all = [sum(own, []) for own in zip(*(table.rows for table in tables))]
    order = sorted(range(len(columns)), key=lambda i: columns[i][1] != "lr")  # rates first
    return Schedule([columns[i] for i in order], [[row[i] for i in order] for row in rows_of_all])


def _run_scheduler(
    schedule: Any, groups: list[dict[str, Any]], rows: int, step: TrainingStep
) -> Schedule:
    name = type(schedule).__name__
    if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise ExportError(
            E.SCHEDULE,
            f"{name} depends on the losses of the run; use one that steps alone, or step it in a "
            "loop of your own (docs/own-loop.md)",
        )
    # Numbers that are tensors are changed in place.
    saved = [{k: copy.deepcopy(v) for k, v in g.items() if k != "params"} for g in groups]
    state = copy.deepcopy(schedule.state_dict())
    numbers = {column: array("d", [value]) for column, value in numbers_of(groups).items()}
    try:
        with warnings.catch_warnings():
            # "lr_scheduler.step() before optimizer.step()": no step is taken here.
            warnings.simplefilter("ignore")
            for _ in range(rows - 1):
                schedule.step()
                for column, value in numbers_of(groups).items():
                    numbers[column].append(value)
                _check_numbers_change(groups, saved, name)
    except ValueError as error:
        mend = f"; {MEND}" if step.lr_schedule_every is None and step.epochs is not None else ""
        raise ExportError(
            E.SCHEDULE, f"{name} cannot be stepped {rows} times: {error}{mend}"
        ) from error
    finally:
        schedule.load_state_dict(state)
        for group, values in zip(groups, saved):
            group.update(values)
    rates = [column for column in numbers if column[1] == "lr"]
    if step.lr_schedule_every is None:
        warn_of_epochs(schedule, list(zip(*(numbers[c] for c in rates))), step.epochs)
    others = [c for c, values in numbers.items() if c[1] != "lr" and len(set(values)) > 1]
    columns = rates + others
    return Schedule(columns, [list(row) for row in zip(*(numbers[c] for c in columns))])


def numbers_of(groups: Sequence[dict[str, Any]]) -> dict[Column, float]:
    """Every number of the groups, by its column."""
    numbers: dict[Column, float] = {}
    for index, group in enumerate(groups):
        for key, value in group.items():
            if key == "params" or key in OF_SCHEDULERS:
                continue
            members = enumerate(value) if isinstance(value, (tuple, list)) else [(None, value)]
            for place, member in members:
                if _is_number(member):
                    name = key if place is None else f"{key}.{place}"
                    numbers[index, name] = float(member)
    return numbers


def _is_number(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.numel() == 1
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def set_number(group: dict[str, Any], name: str, value: Any) -> None:
    """Puts a number into a group, in place of the one that has this name."""
    key, _, place = name.partition(".")
    if not place:
        group[key] = value
        return
    members = list(group[key])
    members[int(place)] = value
    group[key] = type(group[key])(members)


def _check_numbers_change(
    groups: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]], name: str
) -> None:
    for group, values in zip(groups, before):
        for key, value in values.items():
            if isinstance(value, (bool, str)) and group[key] != value:
                raise ExportError(
                    E.SCHEDULE,
                    f"{name} changes {key}, which is no number; only numbers of parameter groups "
                    "may change from step to step",
                )

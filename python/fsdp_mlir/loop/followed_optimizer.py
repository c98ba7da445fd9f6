"""The optimizer of a script beside a run: PyTorch's schedulers set its groups, and the run goes by
them."""

from __future__ import annotations

import math
import warnings
import weakref
from typing import Any, Sequence

import torch

from ..errors import E, RunError
from ..rules.schedule import Column, numbers_of
from ..step.optimizer_list import as_one, parts_of


def checked_rates(rates: Any, shown: Any) -> list[float]:
    """Learning rates, one for each group, as numbers that a step can be taken with.

    Raises:
        RunError: they are none; its text has `shown`, which is what the script gave.
    """
    try:
        numbers = [] if isinstance(rates, str) else list(map(float, rates))
    except (TypeError, ValueError):
        numbers = []
    if not numbers or not all(0 <= number < math.inf for number in numbers):
        raise RunError(
            E.STEP_ARGUMENT,
            f"lr is {shown!r}; give a number from 0 on, or a list of one for each group",
        )
    return numbers


class FollowedOptimizer:
    """Looks at the numbers of the optimizer's groups before each step.

    Learning rates are the run's to set; a plan has the other numbers as constants. It does not keep
    the optimizer, which holds the model's parameters: one that the script has dropped changes
    nothing.

    Args:
        optimizer: the one of the TrainingStep, or an equal one; a list of several.
    """

    def __init__(self, optimizer: Any) -> None:
        self.parts = [weakref.ref(part) for part in parts_of(as_one(optimizer))]
        self.constants, self.flags = self._numbers()[1], self._flags()
        self._sizes = self._sizes_of_groups()
        self._may_get_state = not self._has_state()

    def take_rates(self, session: Any) -> None:
        """Gives the run the learning rates of the groups where they are not its own.

        Raises:
            RunError: another number changed, or the plan has a schedule of its own.
        """
        rates, constants = self._numbers()
        if not rates:
            return
        if (sizes := self._sizes_of_groups()) != self._sizes:
            raise RunError(
                E.RUN_STATE,
                f"the optimizer has {_groups(sizes)} parameters, and had {_groups(self._sizes)}, when "
                "the step was compiled; compile the step anew, and give that run this one's "
                "state_dict()",
            )
        if self._may_get_state and self._has_state():
            self._may_get_state = False
            warnings.warn(
                "the optimizer was given state after the step was compiled, and the run has state "
                "of its own: run.load_state_dict() takes it by names, state.NAME.exp_avg "
                "(docs/own-loop.md)",
                RuntimeWarning,
                stacklevel=5,  # the script's line that takes the step
            )
        if constants != self.constants:
            raise self._refusal(constants)
        self.check_flags()
        if rates != session.rates:
            session.set_rates(checked_rates(rates, shown=rates))

    def check_flags(self) -> None:
        """Raises RunError where a group's flag is another one than a plan was made with, as eval() of
        a schedule-free optimizer makes it."""
        for (group, name), now in self._flags().items():
            if self.flags.get((group, name), now) != now:
                raise RunError(
                    E.RUN_STATE,
                    f"{name} of the optimizer's group {group} was {not now} when the step was compiled "
                    f"and is {now} now, and a run has weights of its own, which train on; set it "
                    "back, and see docs/own-loop.md (schedule-free optimizers) for weights to evaluate",
                )

    def put_rates(self, rates: Sequence[float]) -> None:
        """Gives the groups what the run was given: a scheduler goes on from there."""
        for group, rate in zip(self._groups(), rates):
            held = group["lr"]
            group["lr"] = held.fill_(rate) if isinstance(held, torch.Tensor) else rate

    def count_step(self) -> None:
        """A scheduler warns where no step came before it; here the run takes them."""
        for part in self.parts:
            if (optimizer := part()) is not None:
                optimizer._opt_called = True

    def _groups(self) -> list[dict[str, Any]]:
        """The groups; None where an optimizer is gone."""
        optimizers = [optimizer for part in self.parts if (optimizer := part()) is not None]
        if len(optimizers) < len(self.parts):
            return []
        return [group for optimizer in optimizers for group in optimizer.param_groups]

    def _sizes_of_groups(self) -> list[int]:
        return [len(group["params"]) for group in self._groups()]

    def _has_state(self) -> bool:
        optimizers = (part() for part in self.parts)
        states = (optimizer.state for optimizer in optimizers if optimizer is not None)
        return any(any(state.values()) for state in states)  # one that was looked up is empty

    def _flags(self) -> dict[Column, bool]:
        entries = ((i, x) for i, group in enumerate(self._groups()) for x in group.items())
        return {(i, key): value for i, (key, value) in entries if isinstance(value, bool)}

    def _numbers(self) -> tuple[list[float], dict[Column, float]]:
        """Learning rates, and the numbers that a plan has as constants."""
        numbers = numbers_of(self._groups())
        rates = [value for (_, name), value in numbers.items() if name == "lr"]
        return rates, {column: value for column, value in numbers.items() if column[1] != "lr"}

    def _refusal(self, constants: dict[Column, float]) -> RunError:
        changed = set(constants.items()) ^ set(self.constants.items())
        group, name = min(column for column, _ in changed)
        was, now = self.constants.get((group, name)), constants.get((group, name))
        return RunError(
            E.RUN_STATE,
            f"{name} of the optimizer's group {group} was {was} when the step was compiled and is "
            f"{now} now, and a loop can change learning rates alone; give the scheduler to "
            "TrainingStep as lr_schedule",
        )


def _groups(sizes: Sequence[int]) -> str:
    *first, last = map(str, sizes)
    return f"{len(sizes)} groups, of {', '.join(first)}{' and ' if first else ''}{last}"

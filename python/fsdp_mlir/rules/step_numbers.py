"""Numbers of an optimizer's state that no checkpoint has, since they follow from the steps alone."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from .values import Expr, Pool

Number = Mapping[str, Any]


def numbers_after(
    numbers: Sequence[Number], steps: int, hyperparameter: Callable[[int, str], float]
) -> dict[str, float]:
    """Those states of a rule that are one number and do not count steps, after so many steps.

    Args:
        numbers: the rule's list, as the archive has it.
        hyperparameter: its value in a step, 1 the first, by its name in a schedule.
    """
    formers = [number for number in numbers if number["op"] == "former"]
    if not formers:
        return {}
    former: dict[str, float] = {}
    for step in range(1, max(steps, 1) + 1):
        values = _evaluate(numbers, step, former, hyperparameter)
        begins = {n["name"]: values[n["name"]] for n in formers}
        former = {n["name"]: values[n["next"]] for n in formers}
    values = former if steps else begins
    return {n["state"]: values[n["name"]] for n in formers if "state" in n}


def _evaluate(
    numbers: Sequence[Number],
    step: int,
    former: Mapping[str, float],
    hyperparameter: Callable[[int, str], float],
) -> dict[str, float]:
    pool = Pool()
    values: dict[str, Expr] = {}
    for number in numbers:
        op, name = number["op"], number["name"]
        operands = [
            values[x] if isinstance(x, str) else pool.constant(x)
            for x in number.get("operands", ())
        ]
        if op == "step_count":
            value = pool.constant(step)
        elif op == "hyperparameter":
            value = pool.constant(hyperparameter(step, number["hyperparameter"]))
        elif op == "former":
            value = pool.constant(former[name]) if former else operands[0]
        else:
            value = pool.number(op, *operands)
        values[name] = value
    return {name: value.operands[0] for name, value in values.items()}

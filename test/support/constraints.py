"""The constraints of the plan's checker, and which mutants of test/robustness/mutation each refuses."""

from __future__ import annotations

import re
from typing import NamedTuple

from support import chain

# Classes of mutants by the constraint that refuses them: those that refuse a fifth of a class or
# more. A mutant may break several constraints; the first one that is checked counts.
REFUSES: dict[int, tuple[str, ...]] = {
    2: (
        "elements in one place",
        "moved state",
        "other arena",
        "part forgotten or outside",
        "shrunk arena",
        "state in another arena",
        "wrong offset",
        "wrong size",
    ),
    3: (
        "dropped operator",
        "early command",
        "read of what is not there",
    ),
    5: (
        "copy of other bytes",
        "dropped collective",
        "dropped copy",
        "dropped operator",
        "dropped piece of a copy",
        "early command",
        "early reuse",
        "early update",
        "gradient of a neighbour",
        "operator that writes",
        "output that is not there",
        "part forgotten or outside",
        "read of what is not there",
        "swapped collectives",
        "wrong condition of an update",
        "wrong offset",
        "wrong scale of an update",
    ),
    6: (
        "copy of other bytes",
        "mixed pieces of a copy",
    ),
    7: (
        "wrong count",
        "wrong dtype",
        "wrong kind",
    ),
    8: (
        "dropped record",
        "swapped collectives",
        "swapped events",
        "wrong channel",
        "wrong event",
        "wrong stream",
    ),
    9: (
        "dropped wait",
        "early copy back",
        "early update",
        "gradient of a neighbour",
        "late wait",
        "swapped collectives",
        "wrong event",
    ),
    10: (
        "early reuse",
        "stale copy",
    ),
    11: (
        "copy of other bytes",
        "mixed pieces of a copy",
        "part forgotten or outside",
    ),
    12: (
        "gather of another state",
        "write of a buffer that a window shows",
        "wrong kind",
        "wrong window offset",
    ),
    13: ("shrunk arena",),
    14: (
        "missing division",
        "other divisor everywhere",
        "wrong divisor",
        "wrong divisor of a unit",
        "wrong dtype",
        "wrong kind",
        "wrong operation of a reduction",
    ),
    15: (
        "update of another copy",
        "wrong condition of an update",
        "wrong scale of an update",
    ),
    17: (
        "other neighbours",
        "other owners of a copy",
    ),
    18: (
        "stale copy",
        "update of another copy",
    ),
    19: ("number of a step outside a GPU's memory",),
    22: ("moved state", "parameter that is not saved"),
    24: ("random numbers of a rule",),
    25: (
        "doubled update",
        "dropped update",
        "wrong range of an update",
        "wrong state",
    ),
    26: (
        "wrong condition of an update",
        "wrong operation of a reduction",
        "wrong scale of an update",
    ),
    27: ("dropped update", "sum by another rule"),
    28: (
        "dropped update",
        "mixed pieces of a copy",
        "stale copy",
    ),
    29: ("other live bytes",),
    30: (
        "operator that does more",
        "operator that writes",
        "random numbers in secret",
    ),
    31: (
        "enumeration out of its range",
        "random numbers in secret",
        "wrong signature",
    ),
    32: ("other mesh dimension",),
    34: (
        "another first value",
        "another name of a state",
        "another number of a parameter group",
        "another operator",
        "dropped meaning",
        "enumeration out of its range",
        "forged meaning",
        "frozen parameter",
        "gradient of a neighbour",
        "input of other data",
        "missing division of the loss",
        "operator that does more",
        "other divisor of a unit everywhere",
        "other number of micro-batches",
        "output of another name",
        "swapped equal members",
        "swapped optimizer states",
        "swapped results",
    ),
    36: ("operands of other shapes",),
    37: ("other ranks of a call",),
    39: ("wrong measured time",),
}


class Constraint(NamedTuple):
    number: int
    name: str
    refused: str


def constraints() -> list[Constraint]:
    """The table of runtime/plan/check/Constraints.def."""
    table = (chain.ROOT / "runtime/plan/check/Constraints.def").read_text()
    rows = re.findall(r'^CONSTRAINT\((\d+), "(.*)",\s+"(.*)"\)$', table, re.MULTILINE)
    return [Constraint(int(number), name, refused) for number, name, refused in rows]


def page() -> str:
    """The table of docs/checker.md, and below it which mutants each of them refuses."""
    lines = ["| | name | what is refused |", "|---|---|---|"]
    lines += [f"| C{number} | {name} | {refused} |" for number, name, refused in constraints()]
    lines += ["", "### Which mutants each refuses", ""]
    for number, *_ in constraints():
        if mutants := REFUSES.get(number):
            lines.append(f"- C{number}: {', '.join(mutants)}.")
    return "\n".join(lines)

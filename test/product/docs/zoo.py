"""What the zoo of models has, by its table (`test/numerics/zoo/results.csv`)."""

from __future__ import annotations

import collections
import csv

from support import chain
from support.outcomes import CLOSE, PASSED, REFUSED, WRONG

# The kinds of models in docs/parity.md, by the first part of their names.
_KINDS = {
    "scripts": "scripts",
    "strange": "odd scripts",
    "papers": "steps of papers",
    "selections": "sizes by values",
    "states": "states held and changed",
    "nn": "`torch.nn`",
    "transformers": "Transformers",
    "torchvision": "torchvision",
    "timm": "timm",
}
_STATUSES = (PASSED, CLOSE, REFUSED, WRONG)


def counts() -> dict[str, collections.Counter[str]]:
    """How many models of each kind have each status, and of `all`."""
    found = {kind: collections.Counter[str]() for kind in (*_KINDS, "all")}
    with open(chain.ROOT / "test/numerics/zoo/results.csv", newline="") as file:
        for row in csv.DictReader(file):
            for kind in (row["model"].partition("/")[0], "all"):
                found[kind][row["status"]] += 1
    return found


def table() -> str:
    """The counts as a table.

    Raises:
        ValueError: a model has another status than these.
    """
    lines = [
        "| | models | the same bits | close (1e-5) | refused | wrong |",
        "|---|---|---|---|---|---|",
    ]
    for kind, of in counts().items():
        if of.keys() - set(_STATUSES):
            raise ValueError(f"the zoo's table has models that are {sorted(of)}")
        numbers = (sum(of.values()), *(of[status] for status in _STATUSES))
        lines.append(f"| {_KINDS.get(kind, kind)} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines)


def in_short() -> str:
    """What the README says of them."""
    of = counts()["all"]
    right = of[PASSED] + of[CLOSE]
    return f"{right} of {sum(of.values())} tiny ones train right, {of[REFUSED]} are refused"

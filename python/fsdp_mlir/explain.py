"""Prints what an error's identifier means: `python -m fsdp_mlir.explain FSDP-E0101`."""

from __future__ import annotations

import re
import sys
from typing import Optional, Sequence

from .error_kinds import TEXTS, E
from .errors import ArgumentParser, exit_with, identified

# What people leave out or change of an identifier does not matter: capitals, zeros, what stands in
# front, and the brackets of an error.
_FORM = re.compile(r"\[?(?:FSDP-)?E?([0-9]{1,9})\]?", re.IGNORECASE)


def explain(identifier: str) -> str:
    """The paragraph of an identifier, as docs/errors.md has it; `e101` is FSDP-E0101 too.

    Raises:
        KeyError: there is no such identifier; its text says so.
    """
    unknown = f"there is no error {identifier}"
    form = _FORM.fullmatch(identifier)
    if form is None:
        raise KeyError(f"{unknown}; give it as errors print it, as in FSDP-E0101")
    # Numbers that are near each other are of one part of the software.
    kind = min(E, key=lambda kind: abs(kind.value - int(form[1])))
    if kind.value != int(form[1]):
        raise KeyError(f"{unknown}; the nearest is {kind.identifier}")
    title, cause, mending = TEXTS[kind.value]
    return f"{kind.identifier}: {title}\n\n{cause}\n\n{mending}\n"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The status of the program."""
    parser = ArgumentParser(prog="python -m fsdp_mlir.explain", description=__doc__.split(":")[0])
    parser.add_argument("identifier", help="as errors print it, such as FSDP-E0101")
    identifier = parser.parse_args(arguments).identifier
    try:
        print(explain(identifier), end="")
    except KeyError as error:
        print(f"error: {identified(E.ERROR_UNKNOWN, error.args[0])}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    exit_with(main)

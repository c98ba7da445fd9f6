"""Prints what an error's identifier means: `python -m fsdp_mlir.explain FSDP-E0101`."""

from __future__ import annotations

import sys
from typing import Optional, Sequence

from .error_kinds import TEXTS, E
from .errors import ArgumentParser, exit_with, identified


def explain(identifier: str) -> str:
    """The paragraph of an identifier, as docs/errors.md has it. `FSDP-` may be left out.

    Raises:
        KeyError: there is no such identifier.
    """
    wanted = identifier.upper()
    wanted = wanted if wanted.startswith("FSDP-") else f"FSDP-{wanted}"
    kind = {kind.identifier: kind for kind in E}[wanted]
    title, cause, mending = TEXTS[kind.value]
    return f"{wanted}: {title}\n\n{cause}\n\n{mending}\n"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The status of the program."""
    parser = ArgumentParser(prog="python -m fsdp_mlir.explain", description=__doc__.split(":")[0])
    parser.add_argument("identifier", help="as errors print it, such as FSDP-E0101")
    identifier = parser.parse_args(arguments).identifier
    try:
        print(explain(identifier), end="")
    except KeyError:
        text = f"there is no error {identifier}; give it as errors print it, as in FSDP-E0101"
        print(f"error: {identified(E.ERROR_UNKNOWN, text)}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    exit_with(main)

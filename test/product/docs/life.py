"""The lines of the running example that are about its parameter, for docs/parameter.md."""

from __future__ import annotations

import re

# What is shown of each phase; between lines that are not neighbours stands a mark.
_STATE = r"fsdp\.state @weight"
_SHOWN = {
    "captured": (_STATE, r"fsdp\.load @weight", r'"mm"', r"fsdp\.update"),
    "sharded": (
        *(
            _STATE,
            r"fsdp\.load @weight",
            r"shard\.all_gather",
            r'"slice',
            r'"mm"',
            r'"constant_pad',
        ),
        *(r"shard\.reduce_scatter", r'"div', r"fsdp\.update"),
    ),
    "scheduled": (
        *(_STATE, r"fsdp\.load @weight", r"fsdp\.\w*pack", r"_start", r"fsdp\.wait", r'"mm"'),
        r"fsdp\.update",
    ),
    "commands": (
        *(_STATE, r"cmd\.value state @weight", r"cmd\.copy", r"cmd\.collective", r"cmd\.record"),
        *(r"cmd\.wait", r'cmd\.aten "mm"', r"cmd\.update"),
    ),
}


def of_phase(phase: str, ir: str) -> str:
    """The example's IR in a fence, cut to what is shown of the phase.

    Raises:
        ValueError: something that is to be shown is not there.
    """
    lines = ir.splitlines()
    for pattern in _SHOWN[phase]:
        if not any(re.search(pattern, line) for line in lines):
            raise ValueError(f"docs/parameter.md: no line of phase {phase} has {pattern}")
    wanted = re.compile("|".join(_SHOWN[phase]))
    shown: list[str] = []
    for line in lines:
        if wanted.search(line):
            shown.append(line.strip())
        elif shown and shown[-1] != "…":
            shown.append("…")
    return "\n".join(["```mlir", *(shown[:-1] if shown[-1] == "…" else shown), "```"])

"""What a refused command must print and leave: one error, and nothing written."""

from __future__ import annotations

import pathlib
import re
from typing import Any, Sequence

from support import chain

HANG_S = 60


def errors_of(output: str) -> list[str]:
    return re.findall(r"(?m)^.*\berror: .*$", output)


def refused(arguments: Sequence[Any], *patterns: str, absent: pathlib.Path) -> str:
    """Runs a command that must fail; each pattern must match its output and
    `absent` must not be there afterwards."""
    done = chain.command(arguments, check=False, timeout=HANG_S)
    output = done.stdout + done.stderr
    check_refusal(done.returncode, output, *patterns)
    leftovers = [p.name for p in absent.parent.glob(absent.name + "*")]
    assert not leftovers, f"output was left behind: {leftovers}\n{output}"
    return output


def check_refusal(code: int, output: str, *patterns: str) -> None:
    assert code > 0, f"exit {code}\n{output}"
    assert len(errors_of(output)) == 1, f"not one error:\n{output}"
    for pattern in patterns:
        assert re.search(pattern, output), f"no /{pattern}/ in:\n{output}"


def run_refused(
    compiled: chain.Compiled, folder: pathlib.Path, *patterns: str, **changes: Any
) -> str:
    """Runs the classifier on two ranks with some of its files exchanged."""
    plan = changes.get("plan", compiled.plan)
    weights = changes.get("weights", compiled.weights)
    data = changes.get("data", compiled.data)
    saved = folder / "saved.safetensors"
    arguments = [chain.binary("fsdp-run"), plan, "--weights", weights]
    arguments += ["--data", data, "--steps", changes.get("steps", 3)]
    arguments += ["--nproc", changes.get("nproc", 2), "--save", saved]
    arguments += changes.get("extra", ["--threads"])
    return refused(arguments, *patterns, absent=saved)


# Plans

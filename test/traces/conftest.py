"""Plans of a small GPT for the tests of traces."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Callable

import pytest

from support import chain

STEP_FILE = chain.ROOT / "test" / "options" / "step.py"
Plans = Callable[..., chain.Compiled]


@pytest.fixture(scope="session")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Plans:
    """Makes plans: exported once per flags, lowered once per options."""
    archives: dict[tuple[str, ...], pathlib.Path] = {}
    made: dict[tuple[str, ...], chain.Compiled] = {}

    def make(options: str = "mesh=2", *argv: str) -> chain.Compiled:
        argv = ("--model", "gpt", *argv)
        if argv not in archives:
            archives[argv] = tmp_path_factory.mktemp("archive") / "step.pt"
            chain.export(STEP_FILE, archives[argv], argv)
        if (options, *argv) not in made:
            folder = tmp_path_factory.mktemp("plan")
            made[options, *argv] = chain.lower(STEP_FILE, archives[argv], folder, argv, options)
        return made[options, *argv]

    return make


def report(compiled: chain.Compiled, cluster: str = "auto") -> dict[str, Any]:
    """The compiler's own figures of the commands that the plan was made of."""
    opt = [chain.binary("fsdp-opt"), compiled.scheduled, "-o", "/dev/null"]
    return json.loads(chain.command([*opt, f"--fsdp-report=format=json cluster={cluster}"]).stdout)

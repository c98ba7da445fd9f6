"""Plans of a small GPT for the tests of traces."""

from __future__ import annotations

import json
from typing import Any, Callable

import pytest

from support import chain
from support.compilations import Compilations

STEP_FILE = chain.ROOT / "test" / "options" / "step.py"
Plans = Callable[..., chain.Compiled]


@pytest.fixture(scope="session")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Plans:
    """Makes plans: exported once per flags, lowered once per options."""
    compilations = Compilations(STEP_FILE, tmp_path_factory.mktemp)

    def make(options: str = "mesh=2", *argv: str) -> chain.Compiled:
        return compilations(options, "--model", "gpt", *argv)

    return make


def report(compiled: chain.Compiled, cluster: str = "auto") -> dict[str, Any]:
    """The compiler's own figures of the commands that the plan was made of."""
    opt = [chain.binary("fsdp-opt"), compiled.scheduled, "-o", "/dev/null"]
    return json.loads(chain.command([*opt, f"--fsdp-report=format=json cluster={cluster}"]).stdout)

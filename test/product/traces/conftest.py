"""Plans of a small GPT for the tests of traces."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any, Callable

import pytest
from fsdp_mlir.driver.flags import flags_of, make_parser, parse
from fsdp_mlir.driver.settings import write_settings
from fsdp_mlir.driver.stages import REMARKS

from support import chain, step_files
from support.compilations import Compilations

STEP_FILE = step_files.SMALL
STEPS = 6
Plans = Callable[..., chain.Compiled]


@pytest.fixture(scope="session")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Plans:
    """Makes plans: exported once per flags, lowered once per options."""
    compilations = Compilations(STEP_FILE, tmp_path_factory.mktemp)

    def make(options: str = "mesh=2", *argv: str) -> chain.Compiled:
        return compilations(options, "--model", "gpt", *argv)

    return make


@pytest.fixture(scope="session")
def run_folder(plans: Plans, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """What the driver leaves of a run of two ranks and two micro-batches."""
    compiled = plans("mesh=2 units=class:Block", "--accumulate", "2")
    folder = tmp_path_factory.mktemp("run")
    shutil.copyfile(compiled.plan, folder / "step.plan")
    opt = [chain.binary("fsdp-opt"), compiled.ir, "--fsdp-pipeline=mesh=2 units=class:Block"]
    opt += [*REMARKS, f"--remarks-output-file={folder / 'step.remarks.yaml'}"]
    chain.command([*opt, "-o", "/dev/null"])
    given = parse(["--nproc=2", "--accumulate=2", str(STEP_FILE)])
    write_settings(folder / "run.toml", given, flags_of(make_parser()))
    flags = ["--nproc", "2", "--metrics", folder / "metrics.jsonl"]
    flags += ["--summary", folder / "summary.json", "--trace", folder / "trace.json"]
    chain.command([*chain.run_arguments(compiled, STEPS), *flags])
    return folder


def report(compiled: chain.Compiled, cluster: str = "auto") -> dict[str, Any]:
    """The compiler's own figures of the commands that the plan was made of."""
    opt = [chain.binary("fsdp-opt"), compiled.scheduled, "-o", "/dev/null"]
    return json.loads(chain.command([*opt, f"--fsdp-report=format=json cluster={cluster}"]).stdout)

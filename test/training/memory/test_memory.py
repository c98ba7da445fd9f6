"""Tests that a step allocates nothing once it has run, that kernels write where
the plan has their results, and that flat ranges are communicated where they lie."""

from __future__ import annotations

import functools
import pathlib
from typing import Callable

import pytest

from support import chain, step_files

PARITY = step_files.PARITY
ZOO = step_files.GENERALITY
STEPS = 4
ODD = ("--width", "21", "--heads", "3", "--vocab", "61", "--length", "15")
CASES = {
    "classifier": (PARITY / "classifier.py", ()),
    "gpt-odd-adam": (PARITY / "gpt.py", (*ODD, "--optimizer", "adam")),
    "gpt-fused-adamw": (PARITY / "gpt.py", ("--optimizer", "adamw", "--fused")),
    "gpt-dropout": (PARITY / "gpt.py", ("--dropout", "0.2")),
    "llama": (ZOO / "huggingface.py", ("--model", "llama")),
    "resnet": (ZOO / "resnet.py", ()),
    "mixed": (ZOO / "zoo.py", ("--model", "mixed")),
}
LAYOUTS = ("dim0", "flat")


Archives = Callable[[str], pathlib.Path]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    """Exports a case when a test first asks for it."""

    @functools.cache
    def export(name: str) -> pathlib.Path:
        file, argv = CASES[name]
        path = tmp_path_factory.mktemp(name) / "step.pt"
        chain.export(file, path, argv)
        return path

    return export


@pytest.mark.quick
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_a_step_allocates_and_copies_nothing(
    name: str, layout: str, archives: Archives, tmp_path: pathlib.Path
) -> None:
    file, argv = CASES[name]
    options = f"mesh=2 shard-layout={layout}"
    compiled = chain.lower(file, archives(name), tmp_path, argv, options)
    run = chain.run_plan(compiled, 2, steps=STEPS, poison=False, extra=["--log-grad-norm"])
    assert run.summary["step_allocated_bytes"] == 0
    assert run.summary["outputs_copied"] == {"count": 0, "bytes": 0}
    assert (run.summary["communication_copied_bytes"] == 0) == (layout == "flat")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_of_size_is_taken_from_the_heap(
    layout: str, archives: Archives, tmp_path: pathlib.Path
) -> None:
    """Behind PyTorch's allocator as well: longer runs ask for no more large blocks."""
    name = "gpt-fused-adamw"
    file, argv = CASES[name]
    options = f"mesh=2 shard-layout={layout}"
    compiled = chain.lower(file, archives(name), tmp_path, argv, options)
    counted = tmp_path / "requests"
    preload = {"LD_PRELOAD": str(chain.binary("heap_requests.so")), "HEAP_REQUESTS": str(counted)}

    def requests(steps: int) -> int:
        arguments = chain.run_arguments(compiled, steps) + ["--nproc", "2", "--threads"]
        chain.command(arguments, env=chain.environment(**preload))
        return int(counted.read_text())

    assert requests(12) == requests(4) > 0

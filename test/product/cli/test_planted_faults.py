"""Tests that faults which cost days elsewhere are named by an error, a remark or an explanation: those
of docs/troubleshooting.md that no other test plants."""

from __future__ import annotations

import pathlib
import re

import pytest

from product.cli.refusals import HANG_S
from product.cli.test_launch import started
from fsdp_mlir.report.remarks import read_remarks
from support import chain
from support.compilations import Compilations

STEP = pathlib.Path(__file__).parents[1] / "docs" / "commands_step.py"
LINES = STEP.read_text().splitlines()


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> chain.Compiled:
    return Compilations(STEP, tmp_path_factory.mktemp)("mesh=2")


def opt(step: chain.Compiled, *flags: object, options: str = "mesh=2") -> str:
    command = [chain.binary("fsdp-opt"), step.ir, f"--fsdp-pipeline={options}", "-o", "/dev/null"]
    done = chain.command([*command, *flags], check=False)
    return done.stdout + done.stderr


def test_a_rank_without_data(step: chain.Compiled, tmp_path: pathlib.Path) -> None:
    command = [*chain.run_arguments(step, 3), "--rendezvous", f"file://{tmp_path}/meeting"]
    without = ["/nowhere" if word == str(step.data) else word for word in map(str, command)]
    environments = [chain.environment(RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    with started([command, without], environments) as processes:
        first, second = [process.communicate(timeout=HANG_S)[0] for process in processes]
        assert all(process.returncode for process in processes)
    assert "error: [rank 1] cannot open '/nowhere': No such file or directory" in second
    assert "error: [rank 0] rank 1 failed: cannot open '/nowhere'" in first


def test_a_budget_that_is_too_small(step: chain.Compiled) -> None:
    said = opt(step, options="mesh=2 memory-budget-mib=0.001")
    assert re.search(r'"step" does not fit memory-budget-mib=0.001: it needs [\d.]+ MiB', said)


def test_an_operator_that_forces_a_copy(step: chain.Compiled, tmp_path: pathlib.Path) -> None:
    """Rows of gradients lie apart in the bucket that is sent; without rows there is no copy."""
    sources: set[str] = set()

    def copies(options: str) -> list[str]:
        file = tmp_path / "remarks.yaml"
        flags = ["--remarks-filter=fsdp.*", "--remark-format=yaml", f"--remarks-output-file={file}"]
        opt(step, *flags, options=options)
        said = [r for r in read_remarks(file) if r.name == "copy"]
        sources.update(name for r in said for name in r.text.partition("; from ")[2].split(", "))
        found = [dict(r.figures) for r in said]
        return [figures["line"] for figures in found if int(figures["bytes"]) > 0]

    said = [re.search(r"commands_step.py:(\d+)$", line) for line in copies("mesh=2")]
    assert any(line and "self.up" in LINES[int(line[1]) - 1] for line in said), said
    assert {"blocks.0.up", "blocks.0.down", "head.weight"} < sources, "of each member, its own"
    assert copies("mesh=2 shard-layout=flat") == []


def test_a_gather_that_cannot_be_hidden(step: chain.Compiled) -> None:
    """The evaluation begins with it: nothing is computed before. A faster link would help."""
    said = opt(step, "--fsdp-explain=exposed").partition("program eval")[2]
    assert re.search(r"us  all-gather of blocks.0 \(forward\): nothing to hide it", said)
    assert re.search(r"with links of twice the bandwidth: [\d.]+ us less", said)

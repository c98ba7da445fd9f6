"""Tests that docs/porting.md has a row for every argument and method of FSDP1 and FSDP2, and that
the tests it names exist."""

import inspect
import itertools
import pathlib
import re

import pytest
from torch.distributed import fsdp

ROOT = pathlib.Path(__file__).resolve().parents[3]
SECTIONS = dict(
    section.split("\n", 1) for section in (ROOT / "docs/porting.md").read_text().split("\n## ")[1:]
)


def rows(section: str) -> list[list[str]]:
    """The cells of a section's first table, without its head."""
    lines = SECTIONS[section].splitlines()
    table = itertools.takewhile(
        lambda line: line.startswith("|"),
        itertools.dropwhile(lambda line: not line.startswith("|"), lines),
    )
    return [line.strip("|").split(" | ") for line in list(table)[2:]]


def named(section: str) -> set[str]:
    return {name for row in rows(section) for name in re.findall(r"`(\w+)`", row[0])}


def test_every_argument_of_fully_shard_has_a_row() -> None:
    assert named("FSDP2: `fully_shard`") == set(inspect.signature(fsdp.fully_shard).parameters)


def test_every_method_of_fsdp_module_has_a_row() -> None:
    methods = {n for n, f in vars(fsdp.FSDPModule).items() if inspect.isfunction(f)}
    assert named("FSDP2: methods of the module") == {n for n in methods if not n.startswith("_")}


def test_every_argument_of_fsdp1_has_a_row() -> None:
    arguments = set(inspect.signature(fsdp.FullyShardedDataParallel.__init__).parameters)
    assert named("FSDP1: `FullyShardedDataParallel`") == arguments - {"self"}


@pytest.mark.parametrize("section", SECTIONS)
def test_the_tests_it_names_exist(section: str) -> None:
    found = re.findall(r"`([\w/]+\.py)::(\w+)`", SECTIONS[section])
    assert found
    for file, test in found:
        assert f"\ndef {test}(" in (ROOT / "test" / file).read_text(), f"{file}::{test}"
    if "here" in SECTIONS[section].splitlines()[1:][0]:
        assert all("::" in row[-1] for row in rows(section))

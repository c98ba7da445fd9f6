"""Tests that the reference says what the sources say, and that the examples in the
descriptions of passes are what the passes do."""

from __future__ import annotations

import re

import pytest

from product.docs import examples, pages, sharding, timeline, zoo
from support import chain

EXAMPLES = examples.all_examples()


def test_the_pages_are_what_the_sources_say() -> None:
    old = [page.name for page, text in pages.all_pages().items() if page.read_text() != text]
    assert not old, f"{old} are not what the sources say; run tools/dev docs"


def test_the_readme_says_what_the_zoo_has() -> None:
    assert zoo.in_short() in (chain.ROOT / "README.md").read_text()


def test_the_pictures_are_what_the_plan_predicts() -> None:
    """Each gather and reduction stands beside compute of another block, as the README says."""
    trace = timeline.predicted()
    for picture, text in timeline.pictures().items():
        assert picture.read_text() == text, "run tools/dev docs, and look at it"
    exposed = sum(e["dur"] for e in trace["traceEvents"] if e.get("cat") == "exposed")
    step = next(e["dur"] for e in trace["traceEvents"] if e.get("cat") == "step")
    assert exposed < 0.05 * step


@pytest.mark.parametrize("name", examples.passes())
def test_the_example_is_what_the_pass_does(name: str) -> None:
    assert name in EXAMPLES, "the description does not end with an Input and an Output block"
    example = EXAMPLES[name]
    assert example.run() == example.normalised(), "run tools/dev docs, and read what it changes"


@pytest.mark.quick
@pytest.mark.parametrize("name", examples.passes())
def test_each_pass_has_a_test_of_its_errors(name: str) -> None:
    short = name.removeprefix("fsdp-")
    tested = list((chain.ROOT / "test").rglob(f"{short}-invalid.mlir"))
    cannot = re.search(r"\bcannot\s+fail\b", examples.descriptions()[name])
    assert bool(tested) != bool(
        cannot
    ), f"write {short}-invalid.mlir, or say in the description why the pass cannot fail"


def test_ways_of_sharding_differ_as_the_page_says() -> None:
    """By what they move in bfloat16 to gather and in float32 to reduce, and so by the second."""
    found = sharding.figures()
    sent = {way: row["sent"] / found["DDP"]["sent"] for way, row in found.items()}
    assert sent["ZeRO-2"] == pytest.approx((2 + 4) / 8, rel=0.02)
    assert sent["ZeRO-3"] > sent["ZeRO-3, root kept"] > sent["hpZ"] - 0.05 > sent["ZeRO-2"]
    memory = [found[way]["memory"] for way in ("DDP", "ZeRO-2", "ZeRO-3")]
    assert memory == sorted(memory, reverse=True)
    steps = {way: row["fast step"] for way, row in found.items()}
    assert round(100 * (steps["ZeRO-3"] / steps["ZeRO-2"] - 1)) == 4
    assert min(steps["HSDP"], steps["DDP"]) > steps["ZeRO-3"]
    assert min(found, key=lambda way: found[way]["slow step"]) == "HSDP"

"""Tests that random training steps, compiled in several ways for 1 to 5 ranks,
train as PyTorch does: twelve seeds, and hundreds with `--long`."""

from __future__ import annotations

import pathlib
import sys

import pytest

from support import chain

HERE = pathlib.Path(__file__).resolve().parent


def _fuzz(*flags: object, timeout: float) -> None:
    print(chain.command([sys.executable, HERE / "fuzz.py", *flags], timeout=timeout).stdout)


@pytest.mark.quick
@pytest.mark.parametrize("seeds", ("0:2", "2:12"))
def test_seeds(seeds: str) -> None:
    _fuzz("--seeds", seeds, timeout=1200)


@pytest.mark.long
def test_many_seeds() -> None:
    _fuzz("--seeds", "12:400", timeout=6 * 3600)


@pytest.mark.quick
@pytest.mark.parametrize("plan", sorted((HERE / "corpus" / "plan").iterdir()), ids=lambda p: p.name)
def test_kept_plans_are_of_this_version(plan: pathlib.Path) -> None:
    """A plan of another version ends where its version is read; seeds.py makes them anew."""
    chain.plan_text(plan)


@pytest.mark.parametrize("case", sorted((HERE / "cases").glob("*.mlir")), ids=str)
def test_a_case_that_once_failed_has_its_numbers(case: pathlib.Path) -> None:
    """The numbers of what once failed."""
    _fuzz("--case", case, timeout=600)


def test_a_failing_recipe_is_reduced_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting down ends at the layer and the feature that a failure needs."""
    monkeypatch.syspath_prepend(str(HERE))
    import fuzz
    from recipe import generate
    from variants import Failure

    def failure_of(recipe, folder):  # type: ignore[no-untyped-def]
        bad = [l for l in recipe.layers if "scale" in l.features and l.body == "chunked"]
        return Failure("a scaled chunk is wrong") if bad and recipe.ranks >= 2 else None

    monkeypatch.setattr(fuzz, "failure_of", failure_of)
    found = None
    for seed in range(1000):
        recipe = generate(seed)
        failure = failure_of(recipe, HERE)
        if failure is not None and len(recipe.layers) > 2:
            found = fuzz.shrink(recipe, failure, HERE)[0]
            break
    assert found is not None
    assert [(l.body, l.features) for l in found.layers] == [("chunked", ["scale"])]
    assert (found.ranks, len(found.variants), found.steps) == (2, 1, 1)

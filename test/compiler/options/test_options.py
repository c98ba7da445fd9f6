"""Tests that no option of schedule, layout, memory or transport changes a bit of
losses, gradients or weights: a dozen random combinations over four models, and
hundreds with `--long`."""

from __future__ import annotations

import functools
from typing import Callable

import pytest
import torch

from support import chain, options
from support.options import Combination

Run = Callable[[Combination], chain.Result]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("options")
    archives = options.Archives(folder)

    @functools.lru_cache(maxsize=16)
    def run(combination: Combination) -> chain.Result:
        return chain.run_plan(
            archives.lower(combination.model, combination.passes, folder / "run"),
            combination.ranks,
            threads=combination.threads,
            steps=options.STEPS[combination.model],
            extra=["--log-grad-norm", *combination.flags],
        )

    return run


def norms(result: chain.Result) -> list[float]:
    return [row["grad_norm"] for row in result.metrics]


def check(run: Run, seed: int) -> None:
    combination = options.generate(seed)
    print(f"{seed}: {combination}")
    expected = run(options.reference(combination.model, combination.ranks))
    found = run(combination)
    assert found.losses == expected.losses
    # A rank adds up the squares in the order in which it holds them, and layouts
    # differ in that. The gradients themselves are compared as mlp's weights.
    assert norms(found) == pytest.approx(norms(expected), rel=1e-13, abs=0)
    assert found.weights.keys() == expected.weights.keys()
    different = [n for n, w in expected.weights.items() if not torch.equal(found.weights[n], w)]
    assert not different


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(12))
def test_a_combination_of_options_changes_no_bit(run: Run, seed: int) -> None:
    check(run, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12, 240))
def test_many_combinations_of_options_change_no_bit(run: Run, seed: int) -> None:
    check(run, seed)

"""Fixtures of the data tests: a step, its plans for one and two ranks, and runs of them."""

from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest

from training.data import step
from support import chain

STEP = pathlib.Path(step.__file__)


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("tokens") / "tokens.bin"
    step.tokens().tofile(path)
    return path


@pytest.fixture(scope="session")
def plans(
    tokens: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, chain.Compiled]:
    """By number of ranks; the data beside them is tensors."""
    archive = tmp_path_factory.mktemp("archive") / "step.pt"
    chain.export(STEP, archive, ["tensors", str(tokens)])
    return {
        ranks: chain.lower(STEP, archive, tmp_path_factory.mktemp("plan"), (), f"mesh={ranks}")
        for ranks in (1, 2)
    }


class Trained(dict):
    """The tensors that a run saved, and what it logged."""

    def __init__(self, result: chain.Result) -> None:
        super().__init__({name: tensor.tolist() for name, tensor in result.weights.items()})
        self.losses, self.rows, self.output = result.losses, result.metrics, result.output


Train = Callable[..., Trained]


@pytest.fixture
def train(plans: dict[int, chain.Compiled]) -> Train:
    """Trains on `data` (a file, or what has a description) with `ranks` ranks."""

    def run(ranks: int, data: Any, *extra: Any) -> Trained:
        compiled = plans[ranks]
        if hasattr(data, "description"):
            path = compiled.plan.parent / "described.json"
            path.write_text(data.description())
            data = path
        extra = ("--data", data, *extra) if data is not None else extra
        compiled = chain.dataclasses.replace(compiled, data=None)
        return Trained(chain.run_plan(compiled, ranks, extra=extra))

    return run


@pytest.fixture(scope="session")
def of_tensors(plans: dict[int, chain.Compiled]) -> dict[int, Trained]:
    """By number of ranks, the run that all others are compared with."""
    return {ranks: Trained(chain.run_plan(plans[ranks], ranks)) for ranks in plans}

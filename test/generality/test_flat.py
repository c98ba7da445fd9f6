"""Tests that the layout of parameters does not change a bit: what trains with
rows of each parameter apart trains alike with a unit's elements in one range."""

from __future__ import annotations

import math
import pathlib

import pytest

from support import chain, compare, reference

HERE = pathlib.Path(__file__).parent
MODELS = HERE / "models"
PARITY = HERE.parent / "parity" / "models"
STEPS = 5
ODD = ("--width", "21", "--heads", "3", "--vocab", "61", "--length", "15")
CASES = {
    "gpt2": (MODELS / "huggingface.py", ("--model", "gpt2")),
    "llama": (MODELS / "huggingface.py", ("--model", "llama")),
    "resnet": (MODELS / "resnet.py", ()),
    **{
        name: (MODELS / "zoo.py", ("--model", name))
        for name in "odd tied frozen unreached twice mixed shared groups amsgrad dropout".split()
    },
    "classifier-momentum": (
        PARITY / "classifier.py",
        ("--features", "13", "--classes", "7", "--momentum", "0.9", "--nesterov"),
    ),
    "classifier-sgd": (PARITY / "classifier.py", ()),
    "gpt-adam": (PARITY / "gpt.py", (*ODD, "--optimizer", "adam")),
    "gpt-adamw": (PARITY / "gpt.py", (*ODD, "--optimizer", "adamw")),
    "gpt-sgd": (PARITY / "gpt.py", ("--optimizer", "sgd")),
}
# Exported once, lowered for each layout and number of ranks.
archives: dict[str, pathlib.Path] = {}


def train(name: str, world: int, options: str, factory: pytest.TempPathFactory) -> chain.Result:
    file, argv = CASES[name]
    folder = factory.mktemp(f"{name}-{world}")
    if name not in archives:
        archives[name] = folder / "step.pt"
        chain.export(file, archives[name], argv)
    compiled = chain.lower(file, archives[name], folder, argv, f"mesh={world} {options}")
    return chain.run_plan(compiled, world, steps=STEPS, extra=["--log-grad-norm"])


def check_same(run: chain.Result, expected: chain.Result) -> None:
    losses = [[loss] for loss in expected.losses]
    compare.check_bits(run, reference.Trained(losses, expected.weights))


@pytest.mark.parametrize("world", (1, 2, 3, 4))
@pytest.mark.parametrize("name", CASES)
def test_flat_is_dim0(name: str, world: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rows = train(name, world, "shard-layout=dim0", tmp_path_factory)
    flat = train(name, world, "shard-layout=flat", tmp_path_factory)
    check_same(flat, rows)
    # The same squares, summed in another order.
    for a, b in zip(flat.metrics, rows.metrics):
        assert math.isclose(a["grad_norm"], b["grad_norm"], rel_tol=1e-12)


@pytest.mark.parametrize("reshard", ("true", "false"))
def test_resharding_a_flat_unit_does_not_change_bits(
    reshard: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    options = f"reshard-after-forward={reshard} shard-layout="
    rows = train("gpt-adamw", 2, options + "dim0", tmp_path_factory)
    flat = train("gpt-adamw", 2, options + "flat", tmp_path_factory)
    check_same(flat, rows)

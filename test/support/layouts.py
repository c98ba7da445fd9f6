"""Models that are trained in several layouts, with bits to be compared."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from support import chain, compare, reference, step_files

MODELS = step_files.GENERALITY
PARITY = step_files.PARITY
STEPS = 5
ODD = ("--width", "21", "--heads", "3", "--vocab", "61", "--length", "15")
CASES = {
    "gpt2": (MODELS / "huggingface.py", ("--model", "gpt2")),
    "llama": (MODELS / "huggingface.py", ("--model", "llama")),
    "resnet": (MODELS / "resnet.py", ()),
    **{
        name: (MODELS / "zoo.py", ("--model", name))
        for name in "odd halves halves_with_momentum tied frozen unreached twice mixed shared groups amsgrad dropout names scalar".split()
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


def exported(name: str, factory: pytest.TempPathFactory) -> pathlib.Path:
    file, argv = CASES[name]
    if name not in archives:
        archives[name] = factory.mktemp(name) / "step.pt"
        chain.export(file, archives[name], argv)
    return archives[name]


def train(
    name: str, world: int, options: str, factory: pytest.TempPathFactory, **run: Any
) -> chain.Result:
    file, argv = CASES[name]
    folder = factory.mktemp(f"{name}-{world}")
    compiled = chain.lower(file, exported(name, factory), folder, argv, f"mesh={world} {options}")
    run.setdefault("extra", ["--log-grad-norm"])
    return chain.run_plan(compiled, world, steps=STEPS, **run)


def check_same(run: chain.Result, expected: chain.Result) -> None:
    losses = [[loss] for loss in expected.losses]
    compare.check_bits(run, reference.Trained(losses, expected.weights))

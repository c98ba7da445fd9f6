"""Tests that a model annotated by fully_shard trains as FSDP2 trains it: the same bits on two
ranks, and the same collectives."""

from __future__ import annotations

import pathlib

import pytest
import torch

from support import chain, compare, step_files, training
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training

GPT = pathlib.Path(__file__).parent / "models" / "gpt.py"
ZOO = step_files.GENERALITY / "zoo.py"
EXAMPLE = chain.ROOT / "python" / "examples" / "fsdp2_transformer.py"
STEPS = 6

# Calls of fully_shard, innermost first. Each keeps a bucket for every unit.
POLICIES = {
    "blocks": [Call(("blocks.0",)), Call(("blocks.1",)), Call(("",))],
    "root alone": [Call(("",))],
    "nested": [
        Call(("blocks.0.attention",)),
        Call(("blocks.0",)),
        Call(("blocks.1.up",)),
        Call(("blocks.1",)),
        Call(("",)),
    ],
    "a list is one unit": [
        Call(("blocks.0", "blocks.1")),
        Call(("norm", "head"), reshard=False),
        Call(("",)),
    ],
    "each as it says": [
        Call(("blocks.0",), reshard=False),
        Call(("blocks.1",), reshard=True),
        Call(("",)),
    ],
    "the root reshards": [Call(("blocks.0",)), Call(("blocks.1",)), Call(("",), reshard=True)],
    "a parameter of each rank's own": [
        Call(("blocks.0",), ignored=("blocks.0.ln1.weight",)),
        Call(("",), ignored=("blocks.0.ln1.weight",)),
    ],
    "nothing reshards": [
        Call(("blocks.0",), reshard=False),
        Call(("blocks.1",), reshard=False),
        Call(("",), reshard=False),
    ],
}


# Of further models.
MODELS = {
    "odd": [Call(("0", "2")), Call(("4",)), Call(("",))],
    "frozen": [Call(("0",)), Call(("1",)), Call(("",))],
    "tied": [Call(("blocks.0",)), Call(("blocks.1",)), Call(("",))],
    "unreached": [Call(("used",)), Call(("",))],
    "twice": [Call(("blocks.0",)), Call(("",))],
    "forwards": [Call(("0",)), Call(("2",)), Call(("",))],
    "disorder": [
        Call(("middle.inner",)),
        Call(("last",)),
        Call(("middle",)),
        Call(("first",)),
        Call(("",)),
    ],
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_fsdp2s(name: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    described = Training(GPT, calls=tuple(POLICIES[name]))
    expected = fsdp2.start(described)
    run = training.run(described, tmp_path)
    trained = expected()
    compare.check_bits(run, trained)
    assert counts(run) == trained.collectives


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_trained_as_by_fsdp2(name: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    """Uneven shards, frozen parameters in a unit, tied and unreached ones, a module used twice,
    several forwards before one backward, units in another order than the model's."""
    described = Training(ZOO, ("--model", name), tuple(MODELS[name]))
    expected = fsdp2.start(described)
    run = training.run(described, tmp_path)
    trained = expected()
    compare.check_bits(run, trained)
    # FSDP2 also gathers what backward does not read, and a module's parameters at each use.
    found = counts(run)
    assert all(number <= trained.collectives[key] for key, number in found.items())
    reductions = ("reduce-scatter", "backward")
    assert found[reductions] == trained.collectives[reductions]


@pytest.mark.parametrize(
    "options", ("units=class:Linear reshard-after-forward=true", "shard-layout=flat")
)
def test_the_models_policy_wins(options: str, tmp_path: pathlib.Path) -> None:
    """Options say something else, and change neither collectives nor numbers."""
    described = Training(GPT, calls=tuple(POLICIES["nothing reshards"]), steps=2)
    alone = training.run(described, tmp_path / "alone")
    against = training.run(described, tmp_path / "against", options)
    assert alone.losses == against.losses and counts(alone) == counts(against)
    assert all(torch.equal(value, against.weights[n]) for n, value in alone.weights.items())


def counts(run: chain.Result) -> dict[tuple[str, str], int]:
    found = {}
    for row in run.summary["collectives"]:
        region = "backward" if row["kind"] == "reduce-scatter" else row["region"]
        found[row["kind"], region] = row["calls_per_step"]
    return found


def test_the_example_is_the_pipelines_units(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that names its units, and the same one whose units an option names."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    flags = ["--layers", "2", "--width", "16", "--batch_size", "4"]
    named = chain.compile_step(EXAMPLE, tmp_path / "named", flags, pipeline="")
    chosen = chain.compile_step(
        EXAMPLE, tmp_path / "chosen", [*flags, "--plain"], pipeline="mesh=2 units=class:Layer"
    )
    runs = [chain.run_plan(compiled, 2, steps=STEPS) for compiled in (named, chosen)]
    assert runs[0].losses == runs[1].losses and len(runs[0].losses) == STEPS
    assert runs[0].weights.keys() == runs[1].weights.keys()
    assert all(torch.equal(value, runs[1].weights[n]) for n, value in runs[0].weights.items())
    assert counts(runs[0]) == counts(runs[1])

"""Tests that a Hugging Face model built on `meta` starts by its own initialisation: the same
values on any number of ranks, of the distributions of its config, and trains from them."""

from __future__ import annotations

import pathlib

import pytest
import torch

from support import chain, compare, reference

STEP = pathlib.Path(__file__).with_name("huggingface_step.py")
PIPELINES = {1: "mesh=1", 2: "mesh=2 shard-layout=flat", 4: "mesh=4"}


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, torch.Tensor]]:
    """What is saved after steps at a rate of 0, by number of ranks."""
    folder = tmp_path_factory.mktemp("archive")
    chain.export(STEP, folder / "step.pt", [])
    weights = {}
    for world, pipeline in PIPELINES.items():
        compiled = chain.lower(STEP, folder / "step.pt", folder / str(world), pipeline=pipeline)
        weights[world] = chain.run_plan(compiled, world).weights
    return weights


def test_ranks_and_layouts_start_alike(starts: dict[int, dict[str, torch.Tensor]]) -> None:
    for weights in starts.values():
        assert weights.keys() == starts[1].keys()
        assert all(torch.equal(weights[name], value) for name, value in starts[1].items())


def test_values_are_of_the_config(starts: dict[int, dict[str, torch.Tensor]]) -> None:
    drawn = []
    for name, value in starts[1].items():
        if "norm" in name:
            assert torch.equal(value, torch.ones_like(value)), name
        elif name == "model.embed_tokens.weight":
            assert not value[3].any()  # of padding
            drawn.append(value[4:])
        else:
            drawn.append(value)
    for value in drawn:
        assert value.std() == pytest.approx(0.05, rel=0.15)
        assert abs(value.mean()) < 0.01
    assert len({value.flatten()[0].item() for value in drawn}) == len(drawn)


def test_it_trains_from_there_as_eager(tmp_path: pathlib.Path) -> None:
    """The plan of the model on meta, whose head is its embedding, and eager PyTorch from the values
    that it starts with: rotary frequencies, which no recipe draws, are those of the config."""
    still = chain.compile_step(STEP, tmp_path / "still", ["--tied"], "mesh=1")
    start = chain.run_plan(still, 1).weights
    moving = chain.compile_step(STEP, tmp_path / "moving", ["--tied", "--lr", "0.01"])
    run = chain.run_plan(moving, 2)
    assert "recipes" in run.output
    step = reference.load_step(STEP, ("--tied", "--real", "--lr", "0.01"))
    step.model.load_state_dict(start)
    compare.check_close(run, reference.averaged(step, 2, 3))

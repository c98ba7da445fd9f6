"""Tests that recomputing activations changes no bit, saves the memory it should, and keeps a budget."""

from __future__ import annotations

import json
import pathlib
import re

import pytest

from support import chain, step_files
from support.layouts import check_same, train

# Dropout repeats its numbers, BatchNorm does not repeat its buffers' updates, and a module that is
# used twice is recomputed for both uses.
MODELS = ("dropout", "resnet", "llama", "twice", "tied")
REMATS = ("none", "selective", "full")
LAYERS = ("--layers", "8", "--width", "64", "--length", "64")
GPT = step_files.PARITY / "gpt.py"


# Each model under another schedule, layout and policy; test/compiler/options combines them all.
OPTIONS = (
    "reshard-after-forward=true",
    "shard-layout=flat",
    "reshard-after-forward=false schedule=fsdp2",
)


@pytest.mark.parametrize("name", MODELS)
def test_no_bit_changes(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    plain = train(name, 2, "schedule=naive", tmp_path_factory)
    for i, remat in enumerate(("selective", "full")):
        options = OPTIONS[(MODELS.index(name) + i) % len(OPTIONS)]
        check_same(train(name, 2, f"remat={remat} {options}", tmp_path_factory), plain)


def test_sequential_random_numbers_are_repeated(tmp_path_factory: pytest.TempPathFactory) -> None:
    extra = ["--rng=sequential"]
    plain = train("dropout", 2, "", tmp_path_factory, extra=extra)
    check_same(train("dropout", 2, "remat=full", tmp_path_factory, extra=extra), plain)


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A GPT of eight blocks, whose activations are most of its memory."""
    archive = tmp_path_factory.mktemp("deep") / "step.pt"
    chain.export(GPT, archive, LAYERS)
    return archive


def report(archive: pathlib.Path, folder: pathlib.Path, options: str) -> dict:
    """What fsdp-report says of @step, compiled with `options`."""
    folder.mkdir()
    passes = [
        f"--fsdp-pipeline=mesh=2 {options}",
        f"--fsdp-report=format=json output={folder}/r.json",
    ]
    chain.lower(GPT, archive, folder, passes=passes)
    return json.loads((folder / "r.json").read_text())["programs"]["step"]


def test_the_planned_peak_falls(deep: pathlib.Path, tmp_path: pathlib.Path) -> None:
    of = {remat: report(deep, tmp_path / remat, f"remat={remat}") for remat in REMATS}
    peaks = {remat: figures["live_bytes"] for remat, figures in of.items()}
    times = {remat: figures["predicted_seconds"] for remat, figures in of.items()}
    assert peaks["full"] < peaks["selective"] < peaks["none"]
    assert times["none"] < times["selective"] < times["full"]
    # One gather of a unit in backward serves its recomputation too.
    assert of["full"]["gathers_backward"] <= of["full"]["gathers_forward"]


def test_auto_keeps_a_budget(deep: pathlib.Path, tmp_path: pathlib.Path) -> None:
    of = {remat: report(deep, tmp_path / remat, f"remat={remat}") for remat in REMATS}
    least, most = of["full"]["live_bytes"], of["none"]["live_bytes"]
    before = of["none"]["predicted_seconds"]
    for i, part in enumerate((1.0, 0.7, 0.4, 0.1)):
        budget = (least + part * (most - least)) / 2**20
        options = f"remat=auto memory-budget-mib={budget:.3f}"
        auto = report(deep, tmp_path / f"auto-{i}", options)
        assert auto["live_bytes"] <= budget * 2**20
        # Less memory takes more time, and less than recomputing all.
        assert before <= auto["predicted_seconds"] <= of["full"]["predicted_seconds"]
        before = auto["predicted_seconds"]


@pytest.mark.provokes("FSDP-E0404")
def test_a_budget_that_cannot_hold_names_the_smallest(
    deep: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(chain.ChainError) as refused:
        report(deep, tmp_path / "small", "remat=auto memory-budget-mib=0.1")
    message = refused.value.output
    assert re.search(r'(?m)^error: program "step" does not fit', message)
    smallest = re.search(r"the smallest that it fits is ([0-9.]+) MiB", message)
    assert smallest, message
    options = f"remat=auto memory-budget-mib={smallest[1]}"
    fits = report(deep, tmp_path / "smallest", options)
    assert fits["live_bytes"] <= float(smallest[1]) * 2**20

"""Tests that a run issues the collectives FSDP2 would, no more, and that a rank
holds its share of parameters, gradients and optimizer state."""

from __future__ import annotations

import pathlib

import pytest

from support import chain, reference, step_files

HERE = pathlib.Path(__file__).parent
GPT = (HERE / "models" / "gpt.py", ("--width", "21", "--heads", "3", "--vocab", "61"))
CLASSIFIER = (HERE / "models" / "classifier.py", ())
ZOO = step_files.GENERALITY / "zoo.py"
FROZEN = (ZOO, ("--model", "frozen"))
UNREACHED = (ZOO, ("--model", "unreached"))
TWICE = (ZOO, ("--model", "twice"))
STEPS = 3

# A model, its all-gathers forward, those backward by reshard-after-forward, and
# its reduce-scatters. Backward gathers only what it reads: not a first layer's
# weight, nor what lies before every trained parameter.
COUNTS = {
    "gpt": (GPT, 3, {"auto": 2, "true": 3, "false": 0}, 3),
    "classifier": (CLASSIFIER, 1, {"auto": 0, "true": 0, "false": 0}, 1),
    "frozen": (FROZEN, 3, {"auto": 1, "true": 1, "false": 0}, 2),
    "unreached": (UNREACHED, 1, {"auto": 0, "true": 0, "false": 0}, 1),
    "twice": (TWICE, 3, {"auto": 2, "true": 3, "false": 0}, 3),
}


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    paths = {}
    for name, ((file, argv), *_) in COUNTS.items():
        paths[name] = tmp_path_factory.mktemp(name) / "step.pt"
        chain.export(file, paths[name], argv)
    return paths


def counts(run: chain.Result) -> dict[tuple[str, str], int]:
    """Collectives of one step by kind and region."""
    found: dict[tuple[str, str], int] = {}
    for row in run.summary["collectives"]:
        assert row["calls"] == STEPS * row["calls_per_step"]
        found[row["kind"], row["region"]] = row["calls_per_step"]
    return found


def check_counts(run: chain.Result, forward: int, backward: int, reductions: int) -> None:
    found = counts(run)
    gathered = {r: n for (kind, r), n in found.items() if kind == "all-gather"}
    reduced = sum(n for (kind, _), n in found.items() if kind == "reduce-scatter")
    assert gathered.get("forward", 0) == forward, found
    assert gathered.get("backward", 0) == backward, found
    assert reduced == reductions, found
    assert {kind for kind, _ in found} <= {"all-gather", "reduce-scatter"}


@pytest.mark.parametrize("reshard", ("auto", "true", "false"))
@pytest.mark.parametrize("name", COUNTS)
def test_collectives_of_a_step(
    name: str,
    reshard: str,
    archives: dict[str, pathlib.Path],
    tmp_path: pathlib.Path,
) -> None:
    (file, argv), forward, backward, reductions = COUNTS[name]
    options = f"mesh=2 reshard-after-forward={reshard}"
    compiled = chain.lower(file, archives[name], tmp_path, argv, options)
    run = chain.run_plan(compiled, 2, steps=STEPS)
    check_counts(run, forward, backward[reshard], reductions)


def test_reduced_bytes_are_those_of_trained_parameters(
    archives: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    (file, argv), *_ = COUNTS["frozen"]
    compiled = chain.lower(file, archives["frozen"], tmp_path, argv, "mesh=2")
    run = chain.run_plan(compiled, 2, steps=STEPS)
    expected = 0
    for parameter in reference.load_step(file, argv).model.parameters():
        rows = -(-parameter.shape[0] // 2)
        local = rows * parameter[0].numel() * parameter.element_size()
        expected += -(-local // 64) * 64 if parameter.requires_grad else 0
    reduced = [r for r in run.summary["collectives"] if r["kind"] == "reduce-scatter"]
    assert sum(row["bytes_per_step"] for row in reduced) == expected


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_a_cap_of_one_tensor_gives_each_its_collectives(
    layout: str, archives: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    (file, argv), *_ = COUNTS["classifier"]
    tensors = len(list(reference.load_step(file, argv).model.parameters()))
    losses = []
    for cap, collectives in (("0.000001", tensors), ("none", 1)):
        options = f"mesh=2 reshard-after-forward=false shard-layout={layout} bucket-cap-mib={cap}"
        compiled = chain.lower(file, archives["classifier"], tmp_path / cap, argv, options)
        run = chain.run_plan(compiled, 2, steps=STEPS)
        check_counts(run, collectives, 0, collectives)
        losses.append(run.losses)
    assert losses[0] == losses[1]


def test_clean_up_passes_merge_no_gathers(
    archives: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    (file, argv), forward, backward, reductions = COUNTS["gpt"]
    clean = ["--cse", "--canonicalize"]
    options = "mesh=2 reshard-after-forward=true"
    passes = [f"--fsdp-shard={options}", *clean, "--fsdp-overlap", *clean]
    passes += ["--fsdp-lower", *clean]
    archive = archives["gpt"]
    cleaned = chain.lower(file, archive, tmp_path / "cleaned", argv, "", passes)
    run = chain.run_plan(cleaned, 2, steps=STEPS)
    check_counts(run, forward, backward["true"], reductions)
    plain = chain.lower(file, archive, tmp_path / "plain", argv, options)
    assert run.losses == chain.run_plan(plain, 2, steps=STEPS).losses


def test_one_rank_issues_no_collective(
    archives: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    (file, argv), *_ = COUNTS["gpt"]
    compiled = chain.lower(file, archives["gpt"], tmp_path, argv, "mesh=1")
    assert chain.run_plan(compiled, 1, steps=STEPS).summary["collectives"] == []


@pytest.mark.parametrize("world", (1, 2, 4))
def test_a_rank_holds_its_share(
    world: int, archives: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    (file, argv), *_ = COUNTS["gpt"]
    compiled = chain.lower(file, archives["gpt"], tmp_path, argv, f"mesh={world}")
    run = chain.run_plan(compiled, world, steps=STEPS)
    held = run.summary["rank_bytes"]
    share = 0
    for parameter in reference.load_step(file, argv).model.parameters():
        rows = -(-parameter.shape[0] // world)
        share += rows * parameter[0].numel() * parameter.element_size()
    assert held["parameters"] == share
    assert held["gradients"] == share
    assert held["optimizer"] == 2 * share  # AdamW's two moments
    arenas = run.summary["arenas"]
    assert sum(arenas.values()) == run.summary["memory_bytes"]
    states = held["parameters"] + held["optimizer"] + held["buffers"] + held["constants"]
    assert states < arenas["device"]
    assert arenas["window"] == 0  # no gather is mapped

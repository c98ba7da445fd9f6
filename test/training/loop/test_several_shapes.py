"""Tests that batches of several shapes train as in PyTorch's own loop: in a loop of one's own, and
by fsdp-run from data and from a loader."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import fsdp_mlir
from fsdp_mlir import ExportError, TrainingStep
from support import chain
from support.compilations import Compilations

from . import shapes_step
from .ranks import Ranks
from .shapes_step import SEED, SHAPES, eager, samples

STEPS = 7


@pytest.fixture(scope="session")
def compile_shapes(tmp_path_factory: pytest.TempPathFactory) -> Compilations:
    return Compilations(pathlib.Path(shapes_step.__file__), tmp_path_factory.mktemp)


def check(
    losses: list[float], weights: dict[str, torch.Tensor], steps: list, tolerance: float
) -> None:
    expected, trained = eager(steps)
    assert losses == pytest.approx(expected, rel=0, abs=tolerance)
    for name, value in trained.items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=tolerance)


@pytest.mark.provokes("FSDP-E0506")
def test_a_plan_without_an_evaluation_says_so(compile_shapes: Compilations) -> None:
    compiled = compile_shapes("mesh=1", "buckets")
    with fsdp_mlir.load(compiled.plan, compiled.weights) as run:
        with pytest.raises(fsdp_mlir.RunError, match="no program 'eval'; export the step with"):
            run.eval(samples(*SHAPES[0]))


@pytest.mark.provokes("FSDP-E0805")
@pytest.mark.quick
def test_a_loop_has_the_bits_of_pytorchs(
    compile_shapes: Compilations, tmp_path: pathlib.Path
) -> None:
    compiled = compile_shapes("mesh=1 shard-layout=flat", "loop")
    steps = list(itertools.islice(shapes_step.batches(), STEPS))
    model, _ = shapes_step.fresh()
    with fsdp_mlir.load(compiled.plan, compiled.weights) as run:
        for shape in SHAPES:
            batch = samples(*shape, seed=9)
            assert run.eval(batch) == {"loss": shapes_step.loss(model, **batch).item()}
        losses = [run(batch).item() for batch in steps[:3]]
        with pytest.raises(fsdp_mlir.BatchError) as error:
            run(samples(4, 6))
        assert "batch['x'] has shape [4, 6], and no program of the plan reads" in str(error.value)
        assert "x [4, 8] and y [4, 8], or x [4, 5] and y [4, 5], or x [2, 8]" in str(error.value)
        kept = run.checkpoint(tmp_path / "checkpoints")
    with fsdp_mlir.load(compiled.plan, compiled.weights, resume=kept) as run:
        losses += [run(batch).item() for batch in steps[3:]]
        check(losses, run.state_dict(), [[batch] for batch in steps], 0)


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_two_ranks_agree_on_a_shape(
    layout: str, compile_shapes: Compilations, ranks: Ranks, tmp_path: pathlib.Path
) -> None:
    compiled = compile_shapes(f"mesh=2 shard-layout={layout}", "loop")
    saved = tmp_path / "saved.safetensors"
    arguments = str(compiled.plan), str(compiled.weights), ranks.meeting(), str(saved), STEPS
    found = ranks.call("train_on_shapes", *arguments)
    feeds = [itertools.islice(shapes_step.batches(rank), STEPS) for rank in range(2)]
    steps = list(zip(*feeds))
    for losses, apart, _ in found:
        check(losses, load_file(saved), steps, 1e-6)
        for kind, text in apart:
            assert kind == "BatchError"
            assert "rank 0 has x [4, 8] and y [4, 8], rank 1 has x [2, 8] and y [2, 8]" in text
    ends = [end for _, _, end in found]
    assert ends[1][0] == "BatchError" and "has shape [3, 8]" in ends[1][1]
    assert ends[0][0] == "RankFailure" and ends[1][1] in ends[0][1]


@pytest.mark.parametrize("ranks", (1, 2))
def test_the_rest_of_an_epoch_is_a_batch(
    ranks: int, compile_shapes: Compilations, tmp_path: pathlib.Path
) -> None:
    """As with DataLoader(drop_last=False): steps, and batches of the evaluation."""
    compiled = compile_shapes(f"mesh={ranks}", "rest")
    count = {1: 14, 2: 12}[ranks]
    data = {name: tensor[:count].clone() for name, tensor in samples(14, 8).items()}
    save_file(data, tmp_path / "data.safetensors")
    compiled = dataclasses.replace(compiled, data=tmp_path / "data.safetensors")
    result = chain.run_plan(compiled, ranks, extra=["--eval-data", compiled.data])
    dataset = TensorDataset(data["x"], data["y"])
    feeds = []
    for rank in range(ranks):
        sampler = DistributedSampler(dataset, ranks, rank, seed=SEED, drop_last=True)
        loader = DataLoader(dataset, 4, sampler=sampler)
        feed = []
        for epoch in range(5):
            sampler.set_epoch(epoch)
            feed += [{"x": x, "y": y} for x, y in loader]
        feeds.append(feed)
    steps = list(zip(*feeds))[:9]
    assert {len(batch["x"]) for (batch, *_) in steps} == {4, 2}
    check(result.losses, result.weights, steps, 0 if ranks == 1 else 1e-6)


@pytest.mark.parametrize("ranks", (1, 2))
def test_a_loader_gives_batches_of_several_lengths(
    ranks: int, compile_shapes: Compilations
) -> None:
    compiled = compile_shapes(f"mesh={ranks} shard-layout=flat", "buckets")
    command = f"PYTHONPATH={chain.PYTHON} exec {chain.sys.executable} -m fsdp_mlir.driver.feed_step"
    command += f" {shapes_step.__file__} buckets"
    result = chain.run_plan(compiled, ranks, extra=["--data-command", command])
    feeds = [itertools.islice(shapes_step.buckets(rank), 9) for rank in range(ranks)]
    check(result.losses, result.weights, list(zip(*feeds)), 0 if ranks == 1 else 1e-6)


@pytest.mark.provokes("FSDP-E0203", "FSDP-E0703")
def test_what_batches_must_have_in_common() -> None:
    model, optimizer = shapes_step.fresh()
    one, two = samples(4, 8), samples(4, 5)

    def step(inputs: object, **options: object) -> None:
        TrainingStep(model, shapes_step.loss, optimizer, inputs, **options)

    for inputs, options, words in (
        ([], {}, "inputs is an empty list"),
        ([one, {"x": two["x"]}], {}, r"inputs\[1\] names x, and inputs\[0\] x, y"),
        ([one, {**two, "y": two["y"].int()}], {}, r"inputs\[1\]\['y'\] is torch.int32"),
        ([one, two, one], {}, r"inputs\[2\] has the shapes of inputs\[0\]"),
        ([one, two], {"accumulate": 2}, "the micro-batches of a step have one shape"),
        ([one, two], {"data": samples(12, 8)}, r"samples of shape \[8\] but"),
        ([one, {**one, "y": two["y"]}], {"data": {"x": samples(9, 8)["x"]}}, "it has one shape"),
    ):
        with pytest.raises(ExportError, match=words):
            step(inputs, **options)


def test_all_shapes_train_the_same_parameters(tmp_path: pathlib.Path) -> None:
    from fsdp_mlir.export import export_step

    model, optimizer = shapes_step.fresh()

    def loss(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return model.embedding(x).mean() if len(x) < 4 else model(x).mean()

    step = TrainingStep(model, loss, optimizer, [samples(4, 8), samples(2, 8)])
    with pytest.raises(ExportError, match="lacks a gradient of head.bias, and it is there"):
        export_step(step, tmp_path / "step.pt")

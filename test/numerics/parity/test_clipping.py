"""Tests that gradients are clipped as PyTorch clips FSDP2's: by any norm with one small all-reduce,
by value with none, in both layouts."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch

from fsdp_mlir import TrainingStep
from support import chain, compare, reference, training
from support.fsdp2 import Pool
from support.policies import Call
from support.training import Training

FILE = pathlib.Path(__file__).parent / "models" / "blocks.py"
UNITS = ("blocks.0", "blocks.1", "blocks.2", "")
FLAT = "shard-layout=flat"

# Each bounds the gradients of some steps and not those of others.
NORMS = {"1": "9", "2": "0.5", "3": "0.3", "inf": "0.1"}


def clipped(*flags: str, mesh: tuple[int, ...] = (2,), **options: Any) -> Training:
    return Training(FILE, flags, tuple(Call((unit,), **options) for unit in UNITS), mesh)


def all_reduces(run: chain.Result) -> list[tuple[int, int]]:
    """Calls and bytes per step."""
    rows = run.summary["collectives"]
    return [
        (r["calls_per_step"], r["bytes_per_step"])
        for r in rows
        if (r["program"], r["kind"]) == ("step", "all-reduce")
    ]


@pytest.mark.parametrize("layout", ("", FLAT))
@pytest.mark.parametrize("kind", NORMS)
def test_a_norm_is_pytorchs(kind: str, layout: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    described = clipped("--clip-norm", NORMS[kind], "--norm-type", kind)
    expected = fsdp2.start(described)
    run = training.run(described, tmp_path, layout)
    trained = expected()
    compare.check_close(run, trained)
    compare.check_norms(run, trained)
    assert any(norm > float(NORMS[kind]) for norm in trained.grad_norms)
    assert all_reduces(run) == [(1, 8)]


@pytest.mark.parametrize("layout", ("", FLAT))
def test_a_value_is_pytorchs(layout: str, tmp_path: pathlib.Path, fsdp2: Pool) -> None:
    described = clipped("--clip-value", "0.02")
    expected = fsdp2.start(described)
    run = training.run(described, tmp_path, layout)
    compare.check_bits(run, expected())
    assert all_reduces(run) == []
    free = training.run(clipped(), tmp_path / "free", layout)
    assert not torch.equal(run.weights["head.weight"], free.weights["head.weight"])


def test_layouts_and_ranks_agree_to_rounding(tmp_path: pathlib.Path) -> None:
    runs = [
        training.run(
            clipped("--clip-norm", "0.5", mesh=(ranks,)), tmp_path / f"{ranks}{layout}", layout
        )
        for ranks in (3, 4)
        for layout in ("", FLAT)
    ]
    for dim0, flat in (runs[:2], runs[2:]):
        for a, b in zip(dim0.metrics, flat.metrics, strict=True):
            assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=2e-7)


def test_one_rank_reduces_nothing(tmp_path: pathlib.Path) -> None:
    described = clipped("--clip-norm", "0.5", mesh=(1,))
    run = training.run(described, tmp_path)
    assert run.summary["collectives"] == []
    step = reference.load_step(described.file, described.argv)
    compare.check_close(run, reference.eager(step, described.steps))


@pytest.mark.parametrize("layout", ("", FLAT))
def test_units_on_the_host_are_scaled_as_the_others(
    layout: str, tmp_path: pathlib.Path, fsdp2: Pool
) -> None:
    one = Call(("blocks.1",), offload=True)
    calls = tuple(one if unit in one.paths else Call((unit,)) for unit in UNITS)
    described = Training(FILE, ("--clip-norm", "0.5"), calls)
    expected = fsdp2.start(described)
    run = training.run(described, tmp_path, layout)
    compare.check_close(run, expected())


IGNORED = ("head.weight", "head.bias")


def test_an_ignored_parameter_counts_once(tmp_path: pathlib.Path) -> None:
    """Each rank has its own gradient of it: they count as their mean does."""
    runs = [
        training.run(clipped("--clip-norm", "1e9", ignored=names), tmp_path / str(len(names)))
        for names in ((), IGNORED)
    ]
    first, second = (run.metrics[0]["grad_norm"] for run in runs)
    assert second == pytest.approx(first, rel=0.2) and second >= first


def test_replicas_agree_on_what_each_has_for_itself(tmp_path: pathlib.Path) -> None:
    norms = {}
    for mesh in ((4,), (2, 2), (4, 1)):
        described = clipped("--clip-norm", "0.5", mesh=mesh, ignored=IGNORED)
        run = training.run(described, tmp_path / str(mesh))
        norms[mesh] = [row["grad_norm"] for row in run.metrics]
    assert norms[2, 2] == pytest.approx(norms[4,], rel=1e-6)
    assert norms[4, 1] == pytest.approx(norms[4,], rel=1e-6)


class WithEmpty(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(6, 3)
        self.empty = torch.nn.Parameter(torch.zeros(0, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.empty.sum()


@pytest.mark.parametrize("layout", ("", FLAT))
def test_a_parameter_without_elements_changes_no_norm(layout: str, tmp_path: pathlib.Path) -> None:
    """Also where gradients are copied to the host: nothing is copied of it. FSDP2 refuses it."""

    def norms(kind: type[torch.nn.Linear], *sizes: int) -> list[float]:
        def training_step(flags: list[str]) -> TrainingStep:
            torch.manual_seed(0)
            model = kind(*sizes)
            return TrainingStep(
                model=model,
                loss=lambda model, x: model(x).square().mean(),
                optimizer=torch.optim.AdamW(model.parameters(), lr=0.1),
                inputs={"x": torch.randn(4, 6)},
                clip_grad_norm=0.1,
            )

        folder = tmp_path / kind.__name__
        compiled = chain.compile_step(training_step, folder, (), f"mesh=2 offload=all {layout}")
        return [row["grad_norm"] for row in chain.run_plan(compiled, 2, steps=3).metrics]

    assert norms(WithEmpty) == norms(torch.nn.Linear, 6, 3)


def test_processes_over_gloo_have_the_same_bits(tmp_path: pathlib.Path) -> None:
    described = clipped("--clip-norm", "0.5", mesh=(3,))
    compiled = chain.compile_step(training.annotated(described), tmp_path, described.argv, "")
    threads, gloo = (
        chain.run_plan(compiled, 3, steps=described.steps, **options)
        for options in ({}, {"threads": False, "extra": ["--comm", "gloo"]})
    )
    assert [r["grad_norm"] for r in threads.metrics] == [r["grad_norm"] for r in gloo.metrics]
    assert all(torch.equal(value, gloo.weights[name]) for name, value in threads.weights.items())

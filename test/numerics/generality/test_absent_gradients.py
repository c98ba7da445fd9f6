"""Tests of parameters that some steps give no gradient, as values decide that. PyTorch's optimizers leave
alone what has none: it keeps its value, its states and its count of updates, and does not decay."""

from __future__ import annotations

import copy
import pathlib
import warnings
from typing import Any, Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fsdp_mlir
from fsdp_mlir import ExportError, TrainingStep
from fsdp_mlir.checkpoint.command_line import main
from fsdp_mlir.errors import ExportNote
from fsdp_mlir.export import export_step
from support import chain, reference

STEPS = 6
Optimizer = Callable[[Any], torch.optim.Optimizer]


def adamw(parameters: Any, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.05, weight_decay=0.1, **options)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1)


class Phases(nn.Module):
    """Trains a second head from its fourth step on."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.late = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 3)
        self.steps = 0

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        h = self.body(x).relu()
        y = self.head(h)
        if self.steps > 3:
            y = y + self.late(h)
        return y


class Experts(nn.Module):
    """Sends each row to one of six experts, and leaves out those without a row. A gain is of the first
    three experts together."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(8, 6)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))
        self.gain, self.head = nn.Parameter(torch.ones(8)), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        weight, chosen = self.router(x).softmax(-1).max(-1)
        y = x
        for number, expert in enumerate(self.experts):
            rows = chosen == number
            if rows.any():
                out = expert(x) * self.gain if number < 3 else expert(x)
                y = y + torch.where(rows[:, None], out * weight[:, None], 0.0)
        return self.head(y)


def classified(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


def step_of(
    model: Callable[[], nn.Module], optimizer: Optimizer = adamw, **options: Any
) -> TrainingStep:
    torch.manual_seed(1)
    module = model()
    x, y = torch.randn(64, 8), torch.randint(3, (64,))
    inputs, data = {"x": x[:2], "y": y[:2]}, {"x": x, "y": y}
    return TrainingStep(
        module,
        classified,
        optimizer([p for p in module.parameters() if p.requires_grad]),
        inputs,
        data=data,
        epochs=1,
        **options,
    )


CASES: dict[str, Callable[[], TrainingStep]] = {
    "adamw": lambda: step_of(Phases),
    "fused": lambda: step_of(Phases, lambda parameters: adamw(parameters, fused=True)),
    "momentum": lambda: step_of(Phases, momentum),
    "experts": lambda: step_of(Experts),
    "accumulation": lambda: step_of(Experts, accumulate=2),
    "clipping": lambda: step_of(Experts, clip_grad_norm=0.1),
}


def check(make: Callable[[], TrainingStep], path: pathlib.Path, pipeline: str = "") -> None:
    ranks = 2 if "mesh=2" in pipeline else 1
    step = make()
    expected = reference.trained(step, ranks, STEPS)
    plan = chain.compile_step(lambda argv=(): make(), path, pipeline=pipeline or "mesh=1")
    run = chain.run_plan(plan, ranks, steps=STEPS)
    if step.clip_grad_norm:  # PyTorch takes the norm in float32, a plan in float64
        torch.testing.assert_close(run.losses, expected.mean_losses)
        torch.testing.assert_close(run.weights, expected.state)
        return
    assert run.losses == expected.mean_losses
    for name, value in expected.state.items():
        assert torch.equal(run.weights[name], value), name


@pytest.mark.parametrize("name", CASES)
def test_steps_are_eagers(name: str, tmp_path: pathlib.Path) -> None:
    check(CASES[name], tmp_path)


@pytest.mark.parametrize("layout", ["dim0", "flat"])
def test_a_gradient_on_one_rank_is_one_for_all(layout: str, tmp_path: pathlib.Path) -> None:
    check(CASES["experts"], tmp_path, f"mesh=2 shard-layout={layout}")


def nadam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.NAdam(parameters)


def test_an_optimizer_whose_numbers_follow_from_each_step_is_refused(
    tmp_path: pathlib.Path,
) -> None:
    what = "in its state 'mu_product' .*, and values decide whether a step gives late.weight a gradient"
    with warnings.catch_warnings(), pytest.raises(ExportError, match=what):
        warnings.simplefilter("ignore", ExportNote)
        export_step(step_of(Phases, nadam), tmp_path / "step.pt")


def phases_by_a_buffer() -> nn.Module:
    model = Phases()
    del model.steps
    model.register_buffer("steps", torch.tensor(0))
    return model


@pytest.mark.filterwarnings("ignore::fsdp_mlir.errors.ExportNote")
@pytest.mark.parametrize("taken", [2, 5], ids=["never", "twice"])
def test_states_count_the_updates_of_each_parameter(taken: int, tmp_path: pathlib.Path) -> None:
    """In a run's own states, in what is exported for PyTorch, and in what PyTorch left."""
    theirs, ours = step_of(phases_by_a_buffer), step_of(phases_by_a_buffer)
    batches = [
        {name: tensor[2 * i : 2 * i + 2] for name, tensor in ours.data.items()}
        for i in range(STEPS)
    ]
    losses: list[float] = []
    for i, batch in enumerate(batches):
        if i == taken:
            saved = {
                "model": copy.deepcopy(theirs.model.state_dict()),
                "optim": copy.deepcopy(theirs.optimizer.state_dict()),
            }
        loss = theirs.loss(theirs.model, **batch)
        loss.backward()
        theirs.optimizer.step()
        theirs.optimizer.zero_grad()
        losses.append(loss.item())
    step = TrainingStep(ours.model, ours.loss, ours.optimizer, batches[0])
    with fsdp_mlir.compile(step) as run:
        assert [run(batch) for batch in batches[:taken]] == losses[:taken]
        states = {name: value.clone() for name, value in run.state_dict(optimizer=True).items()}
        run.checkpoint(tmp_path / "run")
    assert states["state.body.bias.step"] == taken
    assert states["state.late.bias.step"] == max(0, taken - 3)
    with fsdp_mlir.compile(step) as run:
        run.load_state_dict(states)
        assert [run(batch) for batch in batches[taken:]] == losses[taken:]

    archive = tmp_path / "step.pt"
    export_step(step, archive)
    of_step = ["--archive", str(archive), "-o"]
    assert not main(
        ["export", str(tmp_path / "run"), "--to", "torch", *of_step, str(tmp_path / "t")]
    )
    exported = torch.load(tmp_path / "t", weights_only=True)
    assert exported["optim"]["state"].keys() == saved["optim"]["state"].keys()
    for number, state in saved["optim"]["state"].items():
        for key, value in state.items():
            assert torch.equal(exported["optim"]["state"][number][key], value), (number, key)

    torch.save(saved, tmp_path / "theirs.pt")
    source = ["import", str(tmp_path / "theirs.pt"), "--from", "torch", *of_step]
    assert not main([*source, str(tmp_path / "imported")])
    with fsdp_mlir.compile(step, resume=tmp_path / "imported") as run:
        assert [run(batch) for batch in batches[taken:]] == losses[taken:]

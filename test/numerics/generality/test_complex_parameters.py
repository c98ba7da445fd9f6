"""Tests that complex parameters train as PyTorch trains them: held in pairs of numbers, by the bits
of its optimizers, on every layout, and to and from the complex tensors of others."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, Callable

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from fsdp_mlir import TrainingStep, checkpoint, fully_shard
from fsdp_mlir.checkpoint.command_line import main
from support import chain, reference

STEPS = 3
Optimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


class Fourier(nn.Module):
    """A filter over frequencies. Numbers of an odd count come first in memory; one complex
    parameter has no dimension, one is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.filter = nn.Parameter(torch.randn(4, 4, 6, dtype=torch.complex64) * 0.1)
        self.gain = nn.Parameter(torch.tensor(1 + 0.5j))
        self.shift = nn.Parameter(torch.randn(4, 6, dtype=torch.complex64))
        self.fixed = nn.Parameter(torch.randn(4, 1, dtype=torch.complex64), requires_grad=False)
        self.lift, self.head = nn.Conv1d(1, 4, 1), nn.Conv1d(4, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        modes = torch.fft.rfft(self.lift(x.unsqueeze(1)))
        out = torch.zeros_like(modes)
        out[:, :, :6] = torch.einsum("bix,iox->box", modes[:, :, :6], self.filter) + self.shift
        out = (out + self.fixed) * self.factor()
        x = torch.fft.irfft(out, n=x.size(-1)) * self.scale.prod()
        return self.head(F.gelu(x)).squeeze(1)

    def factor(self) -> torch.Tensor:
        return 2 * self.gain - self.gain.conj()


class Transposed(Fourier):
    """A parameter is not row-major, which one rank alone may have."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(self.shift.detach().t().contiguous().t())
        self.gain = nn.Parameter(self.gain.detach().view(1))


class Conjugate(Fourier):
    """The gradient of `gain` is a conjugate that is not computed yet: of PyTorch's optimizers only
    those take it that do not look at it as numbers."""

    def factor(self) -> torch.Tensor:
        return self.gain.conj()


TURNS = torch.polar(torch.ones(6, dtype=torch.float64), torch.arange(6.0, dtype=torch.float64))


class Precise(Fourier):
    """Has complex tensors of twice the precision, for which files have no dtype: a table of the
    code, a frozen parameter, and buffers, of which each step changes one."""

    def __init__(self) -> None:
        super().__init__()
        self.lag = nn.Parameter(TURNS[:4, None].conj().resolve_conj(), requires_grad=False)
        self.register_buffer("table", TURNS.clone(), persistent=False)
        self.register_buffer("mean", TURNS[:1].clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        modes = torch.fft.rfft(x)[:, :6] * TURNS
        self.mean.lerp_((modes * self.table).mean().detach(), 0.1)
        x = x + torch.view_as_real(self.mean * self.lag).sum().float()
        return super().forward(x * modes.abs().mean().float())


def training_step(
    new: Optimizer = lambda own: torch.optim.AdamW(own, lr=0.01),
    kind: type[Fourier] = Fourier,
    **options: Any,
) -> TrainingStep:
    torch.manual_seed(3)
    model = kind()
    trained = [p for p in model.parameters() if p.requires_grad]
    inputs = {"x": torch.randn(4, 16), "y": torch.randn(4, 16)}
    loss = lambda model, x, y: F.mse_loss(model(x), y)
    return TrainingStep(model, loss, new(trained), inputs, **options)


OPTIMIZERS: dict[str, Optimizer] = {
    "AdamW": lambda own: torch.optim.AdamW(own, lr=0.01, amsgrad=True),
    "Adam": lambda own: torch.optim.Adam(own, lr=0.01, weight_decay=0.1, maximize=True),
    "SGD": lambda own: torch.optim.SGD(own, lr=0.1),
    "momentum": lambda own: torch.optim.SGD(
        own, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True
    ),
    "dampening": lambda own: torch.optim.SGD(own, lr=0.1, momentum=0.9, dampening=0.2),
    "NAdam": lambda own: torch.optim.NAdam(own, lr=0.01, weight_decay=0.1),
    "RAdam": lambda own: torch.optim.RAdam(own, lr=0.01, weight_decay=0.1),
    "ASGD": lambda own: torch.optim.ASGD(own, lr=0.01, weight_decay=0.1),
    "Rprop": lambda own: torch.optim.Rprop(own, lr=0.01),
    "Adagrad": lambda own: torch.optim.Adagrad(
        own, lr=0.01, weight_decay=0.1, initial_accumulator_value=0.3
    ),
    "Adadelta": lambda own: torch.optim.Adadelta(own, lr=0.1, weight_decay=0.1),
    "Adamax": lambda own: torch.optim.Adamax(own, lr=0.01, weight_decay=0.1),
    "RMSprop": lambda own: torch.optim.RMSprop(
        own, lr=0.01, weight_decay=0.1, momentum=0.9, centered=True
    ),
}


def held(state: reference.Tensors) -> reference.Tensors:
    """A `state_dict()` as files hold it: trained complex tensors in pairs."""
    return {
        name: torch.view_as_real(t) if t.is_complex() and name != "fixed" else t
        for name, t in state.items()
    }


def check_same(found: reference.Tensors, state: reference.Tensors) -> None:
    expected = held(state)
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_have_pytorchs_bits(name: str, tmp_path: pathlib.Path) -> None:
    step = lambda argv=(): training_step(OPTIMIZERS[name], Transposed)
    trained = reference.eager(step(), STEPS)
    run = chain.run_plan(chain.compile_step(step, tmp_path, pipeline="mesh=1"), 1, steps=STEPS)
    assert run.losses == trained.mean_losses
    check_same(run.weights, trained.state)


@pytest.mark.parametrize("kind", (Conjugate, Precise))
def test_complex_tensors_of_other_kinds(kind: type[Fourier], tmp_path: pathlib.Path) -> None:
    step = lambda argv=(): training_step(OPTIMIZERS["momentum"], kind)
    trained = reference.eager(step(), STEPS)
    run = chain.run_plan(chain.compile_step(step, tmp_path, pipeline="mesh=1"), 1, steps=STEPS)
    check_same(run.weights, trained.state)


@pytest.mark.quick
@pytest.mark.parametrize(
    "world, options",
    [
        (2, ""),
        (2, "shard-layout=flat"),
        (4, "reshard-after-forward=false"),
        (4, "shard-layout=flat remat=full"),
    ],
)
def test_ranks_train_as_pytorch(world: int, options: str, tmp_path: pathlib.Path) -> None:
    trained = reference.averaged(training_step(), world, STEPS)
    compiled = chain.compile_step(
        lambda argv: training_step(), tmp_path, pipeline=f"mesh={world} {options}"
    )
    run = chain.run_plan(compiled, world, steps=STEPS)
    assert run.losses == trained.mean_losses
    check_same(run.weights, trained.state)


class Bank(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 9, dtype=torch.complex64) * 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        modes = torch.fft.rfft(x) * self.weight.sum(0) + self.weight[: len(x)]
        return torch.fft.irfft(modes, n=x.size(-1))


def banks(is_annotated: bool) -> TrainingStep:
    """Units of complex parameters alone, as FSDP2 wants one dtype in each; else a tied one."""
    torch.manual_seed(1)
    model = nn.Sequential(Bank(), Bank(), nn.Linear(16, 16))
    if is_annotated:
        for module in (model[0], model[1], model):
            fully_shard(module)
    else:
        model[1].weight = model[0].weight
    inputs = {"x": torch.randn(4, 16), "y": torch.randn(4, 16)}
    loss = lambda model, x, y: F.mse_loss(model(x), y)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return TrainingStep(model, loss, optimizer, inputs, accumulate=2)


@pytest.mark.parametrize("is_annotated", [False, True])
def test_units_and_tied_parameters(is_annotated: bool, tmp_path: pathlib.Path) -> None:
    trained = reference.averaged(banks(is_annotated), 2, STEPS)
    compiled = chain.compile_step(lambda argv: banks(is_annotated), tmp_path)
    run = chain.run_plan(compiled, 2, steps=STEPS)
    assert run.losses == trained.mean_losses
    check_same(run.weights, trained.state)


def test_what_rounds_otherwise_is_close(tmp_path: pathlib.Path) -> None:
    def check_close(found: reference.Tensors, state: reference.Tensors) -> None:
        for name, tensor in held(state).items():
            torch.testing.assert_close(found[name], tensor, rtol=1e-6, atol=1e-7)

    step = lambda argv=(): training_step(OPTIMIZERS["SGD"], clip_grad_norm=0.05)
    compiled = chain.compile_step(step, tmp_path / "clipped", pipeline="mesh=1")
    trained = reference.eager(step(), STEPS)
    check_close(chain.run_plan(compiled, 1, steps=STEPS).weights, trained.state)

    step = lambda argv=(): training_step()
    compiled = chain.compile_step(step, tmp_path / "three", pipeline="mesh=3")
    trained = reference.averaged(step(), 3, STEPS)
    check_close(chain.run_plan(compiled, 3, steps=STEPS).weights, trained.state)

    new = lambda own: torch.optim.Adam(own, lr=0.01, weight_decay=0.1, foreach=True)
    step = lambda argv=(): training_step(new)
    compiled = chain.compile_step(step, tmp_path / "foreach", pipeline="mesh=1")
    trained = reference.eager(step(), STEPS)
    check_close(chain.run_plan(compiled, 1, steps=STEPS).weights, trained.state)


@pytest.mark.parametrize("from_rank0", [False, True])
def test_a_run_starts_from_complex_weights(from_rank0: bool, tmp_path: pathlib.Path) -> None:
    """A file of safetensors has complex64, as others write it."""
    step = training_step()
    torch.manual_seed(11)
    for parameter in step.model.parameters():
        nn.init.normal_(parameter.data)
    weights = {name: t.detach().contiguous() for name, t in step.model.named_parameters()}
    weights |= {f"fsdp.input.{name}": tensor for name, tensor in step.inputs.items()}
    save_file(weights, tmp_path / "complex.safetensors")
    trained = reference.averaged(step, 2, STEPS)
    compiled = chain.compile_step(lambda argv: training_step(), tmp_path)
    compiled = dataclasses.replace(compiled, weights=tmp_path / "complex.safetensors")
    extra = ["--weights-from-rank0"] if from_rank0 else []
    run = chain.run_plan(compiled, 2, steps=STEPS, extra=extra)
    check_same(run.weights, trained.state)


def test_pytorch_goes_on_from_a_checkpoint_and_back(tmp_path: pathlib.Path) -> None:
    trained = reference.eager(training_step(), 3 * STEPS)
    compiled = chain.compile_step(lambda argv: training_step(), tmp_path, pipeline="mesh=1")
    folder = tmp_path / "run"
    flags = ["--checkpoint-dir", folder, "--checkpoint-interval", STEPS]
    chain.run_plan(compiled, 1, steps=STEPS, extra=flags)
    step = training_step()
    assert checkpoint.load(folder, step.model, step.optimizer) == STEPS
    reference.eager(step, STEPS)
    checkpoint.save(tmp_path / "back", step.model, step.optimizer, 2 * STEPS)
    flags = ["--resume", tmp_path / "back" / f"step-{2 * STEPS:08d}"]
    run = chain.run_plan(compiled, 1, steps=3 * STEPS, extra=flags)
    check_same(run.weights, trained.state)


def test_a_run_that_pytorch_began_goes_on(tmp_path: pathlib.Path) -> None:
    step = training_step()
    trained = reference.eager(step, STEPS)
    state = {"model": step.model.state_dict(), "optim": step.optimizer.state_dict()}
    torch.save({**state, "step": STEPS}, tmp_path / "saved.pt")
    trained = reference.eager(step, STEPS)
    compiled = chain.compile_step(lambda argv: training_step(), tmp_path, pipeline="mesh=1")
    arguments = [tmp_path / "saved.pt", "--from", "torch", "--archive", compiled.archive]
    assert main([str(a) for a in ["import", *arguments, "-o", tmp_path / "run"]]) == 0
    flags = ["--resume", tmp_path / "run" / f"step-{STEPS:08d}"]
    run = chain.run_plan(compiled, 1, steps=2 * STEPS, extra=flags)
    check_same(run.weights, trained.state)
    # What is exported of it is in pairs, as all that a run writes.
    arguments = [tmp_path / "run", "--to", "torch", "--archive", compiled.archive]
    assert main([str(a) for a in ["export", *arguments, "-o", tmp_path / "back.pt"]]) == 0
    back = torch.load(tmp_path / "back.pt", weights_only=True)
    assert back["model"].keys() == state["model"].keys()
    assert back["model"]["filter"].shape == (4, 4, 6, 2)

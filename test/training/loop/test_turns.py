"""Tests that losses train in turn as in PyTorch's own loop: in a loop of one's own, and by
fsdp-run with its metrics, evaluation and checkpoints."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from torch import nn

import fsdp_mlir
from fsdp_mlir import ExportError, TrainingStep
from support import chain

from . import turns_step
from .conftest import Compile
from .ranks import Ranks
from .turns_step import BATCH, LOSSES, SEED, batches, eager, fresh, samples

STEPS = 5


def same(weights: dict[str, torch.Tensor], model: torch.nn.Module) -> bool:
    return all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


@pytest.mark.quick
def test_a_loop_has_the_bits_of_pytorchs(compile_turns: Compile) -> None:
    compiled = compile_turns("mesh=1")
    steps = batches(STEPS)
    with fsdp_mlir.load(compiled.plan, compiled.weights, rng="sequential") as run:
        rows = []
        for batch in steps:
            losses = run(batch)
            rows.append({name: run.metrics[name] for name in run.metrics if "." in name})
            assert {f"loss.{turn}": value.item() for turn, value in losses.items()}.items() <= rows[
                -1
            ].items()
            assert run.metrics["loss"] == sum(value.item() for value in losses.values())
        weights = run.state_dict()
    model, optimizers = fresh()
    torch.manual_seed(SEED)
    assert rows == eager(steps, model, optimizers)
    assert same(weights, model)


def test_an_evaluation_has_all_losses(compile_turns: Compile) -> None:
    compiled = compile_turns("mesh=1")
    batch = samples(2 * BATCH, seed=9)
    with fsdp_mlir.load(compiled.plan, compiled.weights, rng="sequential") as run:
        found = run.eval({"x": batch["x"][:BATCH]})
    model, _ = fresh()
    torch.manual_seed(SEED)
    with torch.no_grad():
        losses = [loss(model.eval(), x=batch["x"][:BATCH]) for loss in LOSSES.values()]
    assert found == {
        "loss": (losses[0] + losses[1]).item(),
        "loss.discriminator": losses[0].item(),
        "loss.generator": losses[1].item(),
        "scale.discriminator": turns_step.scale(model, batch["x"])["scale"].item(),
    }


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_two_ranks_evaluate_all_losses(layout: str, compile_turns: Compile, ranks: Ranks) -> None:
    """Each its own batch, before the first step and behind it."""
    compiled = compile_turns(f"mesh=2 shard-layout={layout}")
    found = ranks.call("evaluate_turns", str(compiled.plan), str(compiled.weights), ranks.meeting())
    model, _ = fresh()
    for rank, (before, after) in enumerate(found):
        torch.manual_seed(SEED)
        with torch.no_grad():
            losses = [loss(model.eval(), **samples(BATCH, seed=rank)) for loss in LOSSES.values()]
        assert before["loss.discriminator"] == losses[0].item()
        assert before["loss.generator"] == losses[1].item()
        assert before["loss"] == (losses[0] + losses[1]).item()
        assert after.keys() == before.keys() and after != before


def train_on_data(compiled: chain.Compiled, *extra: str, steps: int) -> chain.Result:
    return chain.run_plan(compiled, 1, steps=steps, extra=["--rng", "site", *extra])


def test_a_run_goes_on_from_a_checkpoint(compile_turns: Compile, tmp_path: pathlib.Path) -> None:
    """Each turn's losses are in the metrics, and in the choice of the best checkpoint."""
    compiled = compile_turns("mesh=1 shard-layout=flat", "--data")
    whole = train_on_data(compiled, steps=6)
    folder = ["--checkpoint-dir", str(tmp_path), "--keep-best", "loss.generator"]
    first = train_on_data(compiled, *folder, steps=3)
    rest = train_on_data(compiled, *folder, "--resume", "auto", steps=6)
    names = ("loss", "loss.discriminator", "loss.generator", "scale.discriminator")
    rows = [[row[name] for name in names] for row in whole.metrics if "loss" in row]
    assert [[row[name] for name in names] for row in rest.metrics if "loss" in row] in (
        rows,
        rows[3:],
    )
    assert first.losses == whole.losses[:3]
    assert all(torch.equal(rest.weights[name], value) for name, value in whole.weights.items())


def test_a_loader_is_asked_once_for_all_turns(compile_turns: Compile) -> None:
    compiled = compile_turns("mesh=1", "--loader")
    command = f"PYTHONPATH={chain.PYTHON} exec {chain.sys.executable} -m fsdp_mlir.driver.feed_step"
    command += f" {turns_step.__file__} --loader"
    flags = ["--data-command", command, "--rng", "sequential"]
    result = chain.run_plan(compiled, 1, steps=STEPS, extra=flags)
    model, optimizers = fresh()
    torch.manual_seed(SEED)
    expected = eager(batches(STEPS), model, optimizers)
    assert [{name: row[name] for name in expected[0]} for row in result.metrics] == expected
    assert same(result.weights, model)


def test_batches_of_several_shapes_have_all_turns(tmp_path: pathlib.Path) -> None:
    model, optimizers = fresh()
    inputs = [samples(BATCH), samples(2 * BATCH)]
    step = TrainingStep(model, LOSSES, optimizers, inputs, seed=SEED)
    steps = [samples(BATCH * (1 + number % 2), seed=number) for number in range(STEPS)]
    with fsdp_mlir.compile(step, out=tmp_path, rng="sequential") as run:
        found = [{f"loss.{turn}": loss.item() for turn, loss in run(b).items()} for b in steps]
        torch.manual_seed(SEED)
        expected = eager(steps, model, optimizers)
        assert found == [{k: v for k, v in row.items() if "loss" in k} for row in expected]
        assert same(run.state_dict(), model)


class Agent(torch.nn.Module):
    """An actor, its critic, and the weight of its entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = torch.nn.Linear(6, 4)
        self.critic = torch.nn.Sequential(
            torch.nn.Linear(10, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)
        )
        self.log_alpha = torch.nn.Parameter(torch.zeros(()))

    def value(self, x: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        return self.critic(torch.cat([x, action], 1)).mean()


def critic_loss(model: Agent, x: torch.Tensor, reward: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        action = model.actor(x).softmax(1)
    return (model.value(x, action) - reward.mean()).square()


def actor_loss(model: Agent, x: torch.Tensor, **others: torch.Tensor) -> torch.Tensor:
    action = model.actor(x).softmax(1)
    entropy = -(action * action.log()).sum(1).mean()
    return -model.value(x, action) - model.log_alpha.exp() * entropy


def alpha_loss(model: Agent, x: torch.Tensor, **others: torch.Tensor) -> torch.Tensor:
    action = model.actor(x).softmax(1)
    return model.log_alpha.exp() * ((-(action * action.log()).sum(1).mean()) - 1.0)


AGENT = {"critic": critic_loss, "actor": actor_loss, "alpha": alpha_loss}


def agent() -> tuple[Agent, dict[str, Any]]:
    """One turn has two optimizers."""
    torch.manual_seed(2)
    model = Agent()
    first, last = model.critic[0], model.critic[2]
    return model, {
        "critic": [
            torch.optim.Adam(first.parameters(), 0.02),
            torch.optim.SGD(last.parameters(), 0.1),
        ],
        "actor": torch.optim.AdamW(model.actor.parameters(), 0.03),
        "alpha": torch.optim.Adam([model.log_alpha], 0.05),
    }


@pytest.mark.parametrize("pipeline", ("shard-layout=dim0", "shard-layout=flat units=100"))
def test_three_turns_with_rates_of_their_own(pipeline: str, tmp_path: pathlib.Path) -> None:
    model, optimizers = agent()
    schedulers = [
        torch.optim.lr_scheduler.StepLR(optimizers["actor"], 2, 0.5),
        torch.optim.lr_scheduler.ExponentialLR(optimizers["critic"][1], 0.9),
    ]
    generator = torch.Generator().manual_seed(4)
    steps = [
        {"x": torch.randn(5, 6, generator=generator), "reward": torch.randn(5, generator=generator)}
        for _ in range(STEPS)
    ]
    step = TrainingStep(model, AGENT, optimizers, steps[0], lr_schedule=schedulers, steps=STEPS)
    with fsdp_mlir.compile(step, pipeline=pipeline, out=tmp_path) as run:
        found = [[loss.item() for loss in run(batch).values()] for batch in steps]
        expected = []
        for batch in steps:
            row = []
            for turn, loss in AGENT.items():
                model.zero_grad()
                value = loss(model, **batch)
                value.backward()
                own = optimizers[turn]
                for optimizer in own if isinstance(own, list) else [own]:
                    optimizer.step()
                row.append(value.item())
            for scheduler in schedulers:
                scheduler.step()
            expected.append(row)
        assert found == expected
        assert same(run.state_dict(), model)


class Game(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.critic = nn.Linear(4, 1)
        self.generator = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def criticise(game: Game, real: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    return game.critic(game.generator(noise).detach()).mean() - game.critic(real).tanh().mean()


def generate(game: Game, real: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    return -game.critic(game.generator(noise)).tanh().mean()


@pytest.mark.filterwarnings("ignore:.*no update")
def test_a_critic_that_trains_twice_as_often() -> None:
    """Two runs of one model, of which each takes what the other one has trained, and the statistics
    of a BatchNorm that both have updated."""
    plain, runs, optimizers = Game(), {}, {}
    steps = {"critic": criticise, "generator": generate}
    feed = [{"real": torch.randn(5, 4), "noise": torch.randn(5, 3)} for _ in range(4)]
    for name, loss in steps.items():
        game = Game()
        planned, optimizers[name] = (
            torch.optim.Adam(getattr(one, name).parameters(), 0.1) for one in (game, plain)
        )
        runs[name] = fsdp_mlir.compile(TrainingStep(game, loss, planned, feed[0]))
    for i, batch in enumerate(feed):
        for name in ("critic", "generator") if i % 2 else ("critic",):
            plain.zero_grad()
            expected = steps[name](plain, **batch)
            expected.backward()
            optimizers[name].step()
            assert runs[name](batch).item() == expected.item()
            other = runs["critic" if name == "generator" else "generator"]
            other.load_state_dict(runs[name].state_dict())
    torch.testing.assert_close(other.state_dict(), dict(plain.state_dict()), rtol=0, atol=0)


def criticise_a_copy(game: Game, real: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    buffers = {name: value.clone() for name, value in game.generator.named_buffers()}
    fake = torch.func.functional_call(game.generator, buffers, noise)
    return game.critic(fake.detach()).mean() - game.critic(real).tanh().mean()


def test_a_batch_that_both_turns_make_counts_once() -> None:
    """Tests that a turn which gives its generator copies of its buffers leaves their statistics to
    the other turn, as a loop does that makes the fake batch once."""
    plain, game = Game(), Game()
    inputs = {"real": torch.randn(5, 4), "noise": torch.randn(5, 3)}
    losses = {"critic": criticise_a_copy, "generator": generate}
    trained, others = (
        {name: torch.optim.Adam(getattr(one, name).parameters(), 0.1) for name in losses}
        for one in (game, plain)
    )
    run = fsdp_mlir.compile(TrainingStep(game, losses, trained, inputs))
    for _ in range(2):
        found = run(inputs)
        fake = plain.generator(inputs["noise"])
        of_critic = plain.critic(fake.detach()).mean() - plain.critic(inputs["real"]).tanh().mean()
        of_critic.backward()
        others["critic"].step()
        of_generator = -plain.critic(fake).tanh().mean()
        of_generator.backward()
        others["generator"].step()
        plain.zero_grad()
        assert found == {"critic": of_critic.item(), "generator": of_generator.item()}
    torch.testing.assert_close(run.state_dict(), dict(plain.state_dict()), rtol=0, atol=0)


def refused(words: str, **changes: Any) -> None:
    model, optimizers = fresh()
    options = {"loss": LOSSES, "optimizer": optimizers, "inputs": samples(BATCH)}
    with pytest.raises(ExportError, match=words):
        TrainingStep(model=model, **{**options, **changes})


def test_what_turns_must_be() -> None:
    model, optimizers = fresh()
    one = optimizers["generator"]
    refused("loss is an empty dict", loss={})
    refused("loss has the turn 'a b'; names are Python identifiers", loss={"a b": len})
    refused(r"loss\['generator'\] is 3; give a function", loss={**LOSSES, "generator": 3})
    refused("and optimizer is a AdamW; give a dict of an optimizer for each turn", optimizer=one)
    refused("and optimizer is the turns generator;", optimizer={"generator": one})
    refused("in the same order", optimizer=dict(reversed(optimizers.items())))
    refused(
        "of shape .* is in the optimizers of the turns discriminator and generator.*own-loop.md",
        optimizer=dict.fromkeys(LOSSES, one),
    )
    refused("and metrics is function; give a dict", metrics=turns_step.scale)
    refused("metrics has 'critic', and loss the turns", metrics={"critic": turns_step.scale})
    refused(
        "metrics is a dict, and loss one function",
        loss=LOSSES["generator"],
        optimizer=one,
        metrics={},
    )
    refused("optimizer is dict; give", loss=LOSSES["generator"])
    refused("accumulate is 2, and loss has the turns", accumulate=2)
    refused("a GradScaler skips each", scaler=torch.amp.GradScaler("cpu"))


def test_a_turn_reaches_what_its_optimizer_holds(tmp_path: pathlib.Path) -> None:
    from fsdp_mlir.export import export_step

    model, optimizers = fresh()
    losses = {
        "discriminator": turns_step.generator_loss,
        "generator": lambda model, x: judged_real(model, x),
    }
    step = TrainingStep(model, losses, optimizers, samples(BATCH))
    with pytest.raises(
        ExportError, match="the loss of generator reaches no trainable parameter of its optimizer"
    ):
        export_step(step, tmp_path / "step.pt")


def judged_real(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return turns_step.judged(model, x, 1.0)


def test_a_step_is_not_skipped_in_its_middle(compile_turns: Compile) -> None:
    with pytest.raises(
        chain.ChainError, match="non-finite=skip skips a whole step, and the step has several turns"
    ):
        compile_turns("mesh=1 non-finite=skip")

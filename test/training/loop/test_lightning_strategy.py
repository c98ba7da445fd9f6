"""Tests that a Lightning trainer trains by a plan as it does by itself."""

from __future__ import annotations

import json
import pathlib
import sys
from types import ModuleType
from typing import Any, Iterator

import lightning
import pytest
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import EMAWeightAveraging, GradientAccumulationScheduler
from lightning.pytorch.callbacks import ModelCheckpoint, StochasticWeightAveraging
from lightning.pytorch.loggers import CSVLogger

from support import chain, step_files

EXAMPLE = chain.ROOT / "python" / "examples" / "lightning_strategy.py"
STEPS = 6
HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return step_files.loaded(EXAMPLE)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What Lightning sets in this process is as before at the end: variables, and a group, which a
    run that fails leaves."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "0")
        monkeypatch.delenv(name)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


class Rows(lightning.Callback):
    """What a callback of the user's sees of each step and each evaluation."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.rates: list[float] = []
        self.evaluated: list[float] = []

    def on_train_batch_end(self, trainer: lightning.Trainer, *arguments: Any) -> None:
        self.losses.append(trainer.callback_metrics["loss"].item())
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    def on_validation_end(self, trainer: lightning.Trainer, *arguments: Any) -> None:
        self.evaluated.append(trainer.callback_metrics["eval_loss"].item())


@pytest.mark.usefixtures("environment")
def test_a_trainer_trains_by_a_plan(example: ModuleType, tmp_path: pathlib.Path) -> None:
    def fit(name: str, strategy: Any, resumed: Any = None) -> tuple[Rows, Any]:
        torch.manual_seed(0)
        rows, module = Rows(), example.Counter()
        kept = ModelCheckpoint(tmp_path / name, "{step}", every_n_train_steps=3, save_top_k=-1)
        trainer = lightning.Trainer(
            accelerator="cpu",
            devices=1,
            strategy=strategy,
            max_steps=STEPS,
            gradient_clip_val=0.5,
            callbacks=[rows, kept],
            logger=CSVLogger(tmp_path, name, version=""),
            log_every_n_steps=1,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        trainer.fit(module, example.rows(24), example.rows(16), ckpt_path=resumed)
        return rows, module

    def strategy() -> Any:
        return example.PlanStrategy(cache_dir=str(tmp_path / "cache"))

    eager, _ = fit("eager", "auto")
    planned, module = fit("planned", strategy())
    assert len(planned.losses) == STEPS and len(planned.evaluated) == 3  # the first is a check
    assert planned.losses == pytest.approx(eager.losses, rel=1e-4)
    assert planned.evaluated == pytest.approx(eager.evaluated, rel=1e-4)
    assert planned.rates == eager.rates
    logged = (tmp_path / "planned" / "metrics.csv").read_text()
    assert logged.count("\n") > STEPS and "eval_loss" in logged

    saved = torch.load(tmp_path / "planned" / f"step={STEPS}.ckpt", weights_only=True)
    for name, value in module.state_dict().items():
        assert torch.equal(saved["state_dict"][name], value), name
    # From a checkpoint in the midst it comes to the same bits.
    again, resumed = fit("again", strategy(), tmp_path / "planned" / "step=3.ckpt")
    assert again.losses == planned.losses[3:]
    for name, value in module.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name


def beside_the_plan(module: Any) -> list[lightning.Callback]:
    module.training_step = lambda batch, batch_idx: module.head.weight.square().mean()
    return []


def by_hand(module: Any) -> list[lightning.Callback]:
    module.automatic_optimization = False
    return []


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    "change, words",
    [
        (
            lambda module: [EMAWeightAveraging()],
            "EMAWeightAveraging: a plan has weights",
        ),
        (lambda module: [StochasticWeightAveraging(0.1)], "StochasticWeightAveraging: a plan"),
        (
            lambda module: [GradientAccumulationScheduler({1: 2})],
            "GradientAccumulationScheduler: a plan",
        ),
        (beside_the_plan, "training_step computes what its loss"),
        (by_hand, "optimization by hand: a plan"),
    ],
)
def test_what_a_plan_would_train_otherwise_is_refused(
    example: ModuleType, change: Any, words: str
) -> None:
    module = example.Counter()
    options = {"accelerator": "cpu", "devices": 1, "logger": False, "enable_checkpointing": False}
    options |= {"enable_progress_bar": False, "enable_model_summary": False, "max_steps": 1}
    trainer = lightning.Trainer(
        strategy=example.PlanStrategy(),
        callbacks=change(module),
        num_sanity_val_steps=0,
        **options,
    )
    with pytest.raises(ValueError, match=words):
        trainer.fit(module, example.rows(24))


def test_two_ranks_train_as_ddp_does(tmp_path: pathlib.Path) -> None:
    """Each on its own half of the data, which Lightning's sampler gives."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", HERE / "lightning_ranks.py", tmp_path, STEPS]
    chain.command(command, timeout=240, env=chain.environment(OMP_NUM_THREADS="1"))
    ddp, plan = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("ddp", "plan"))
    assert len(plan["losses"]) == STEPS and len(plan["evaluated"]) == 3
    for name in plan:
        assert plan[name] == pytest.approx(ddp[name], rel=1e-4), name
    theirs, ours = (torch.load(tmp_path / f"{name}.pt") for name in ("ddp", "plan"))
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=1e-3, atol=1e-5)

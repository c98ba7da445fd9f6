"""Tests that Hugging Face's Trainer trains by a plan as it does by itself."""

from __future__ import annotations

import pathlib
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import IntervalStrategy

from support import chain, step_files

EXAMPLE = chain.ROOT / "python" / "examples" / "hf_trainer.py"
STEPS = 6


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return step_files.loaded(EXAMPLE)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


def arguments(out: pathlib.Path, accumulate: int) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(out),
        use_cpu=True,
        dataloader_drop_last=True,
        optim="adamw_torch",
        max_steps=STEPS,
        logging_steps=1,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=accumulate,
        report_to=[],
        save_steps=3,
        warmup_steps=2,
        learning_rate=1e-2,
        disable_tqdm=True,
    )


class Steps(TrainerCallback):
    """Counts what a callback of the user's sees."""

    seen = 0

    def on_step_end(self, *arguments: Any, **options: Any) -> None:
        self.seen += 1


def rows(trainer: Trainer) -> list[dict[str, float]]:
    names = ("loss", "grad_norm", "learning_rate")
    return [{name: row[name] for name in names} for row in trainer.state.log_history[:STEPS]]


@pytest.mark.parametrize("accumulate", (1, 2))
def test_a_trainer_trains_by_a_plan(
    accumulate: int, example: ModuleType, cache: str, tmp_path: pathlib.Path
) -> None:
    data = example.sentences(64)

    def planned() -> Trainer:
        return example.PlanTrainer(
            model=example.tiny_llama(),
            args=arguments(tmp_path / "planned", accumulate),
            train_dataset=data,
            eval_dataset=data[:16],
            cache_dir=cache,
            callbacks=[counter],
        )

    counter = Steps()
    eager = Trainer(
        model=example.tiny_llama(),
        args=arguments(tmp_path / "eager", accumulate),
        train_dataset=data,
        eval_dataset=data[:16],
    )
    eager.train()
    trainer = planned()
    trainer.train()
    assert counter.seen == STEPS
    for ours, theirs in zip(rows(trainer), rows(eager), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(eager.evaluate()["eval_loss"], rel=1e-4)

    saved = LlamaForCausalLM.from_pretrained(tmp_path / "planned" / f"checkpoint-{STEPS}")
    states = trainer.run.state_dict()
    for name, value in saved.state_dict().items():
        assert torch.equal(states[name], value), name

    trainer.run.close()
    if accumulate == 1:
        return
    # From a checkpoint in the midst it comes to the same bits.
    again = planned()
    again.train(resume_from_checkpoint=str(tmp_path / "planned" / "checkpoint-3"))
    assert rows(again) == rows(trainer)
    for name, value in again.run.state_dict().items():
        assert torch.equal(states[name], value), name


def test_the_best_model_is_what_the_trainer_has_at_the_end(
    example: ModuleType, cache: str, tmp_path: pathlib.Path
) -> None:
    """Here that of the higher loss, which is the one before the last."""
    args = arguments(tmp_path, 1)
    args.eval_strategy, args.eval_steps = IntervalStrategy.STEPS, 3
    args.load_best_model_at_end, args.metric_for_best_model = True, "eval_loss"
    args.greater_is_better = True
    data = example.sentences(32)
    trainer = example.PlanTrainer(
        model=example.tiny_llama(),
        args=args,
        train_dataset=data,
        eval_dataset=data[:8],
        cache_dir=cache,
    )
    trainer.train()
    losses = [row["eval_loss"] for row in trainer.state.log_history if "eval_loss" in row]
    assert trainer.evaluate()["eval_loss"] == losses[0] > losses[1]
    trainer.run.close()


def test_what_a_plan_does_not_read_is_refused(example: ModuleType, tmp_path: pathlib.Path) -> None:
    args = arguments(tmp_path, 1)
    args.fp16 = True
    with pytest.raises(ValueError, match="no loss scale"):
        example.PlanTrainer(model=example.tiny_llama(), args=args)

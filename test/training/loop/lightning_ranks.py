"""FOLDER STEPS, under torchrun: Lightning trains its example by DDP, and by a plan."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python" / "examples")]
import lightning_strategy as example


class Rows(lightning.Callback):
    """What rank 0 sees: its own losses, and those of evaluations, which are all ranks'."""

    def __init__(self) -> None:
        self.seen: dict[str, list[float]] = {"losses": [], "evaluated": []}

    def on_train_batch_end(self, trainer: lightning.Trainer, *arguments: Any) -> None:
        self.seen["losses"].append(trainer.callback_metrics["loss"].item())

    def on_validation_end(self, trainer: lightning.Trainer, *arguments: Any) -> None:
        self.seen["evaluated"].append(trainer.callback_metrics["eval_loss"].item())


def fit(strategy: Any, steps: int) -> tuple[dict[str, list[float]], dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    rows, module = Rows(), example.Counter()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=strategy,
        max_steps=steps,
        callbacks=[rows],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, example.rows(48), example.rows(32))
    return rows.seen, {name: value.clone() for name, value in module.state_dict().items()}


def main(folder: str, steps: str) -> None:
    torch.set_num_threads(1)
    strategies = {
        "ddp": DDPStrategy(process_group_backend="gloo"),
        "plan": example.PlanStrategy(cache_dir=f"{folder}/cache"),
    }
    for name, strategy in strategies.items():
        seen, weights = fit(strategy, int(steps))
        if torch.distributed.get_rank() == 0:
            pathlib.Path(folder, f"{name}.json").write_text(json.dumps(seen))
            torch.save(weights, f"{folder}/{name}.pt")
    # What PyTorch leaves to the process's end may be ended in its midst.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])

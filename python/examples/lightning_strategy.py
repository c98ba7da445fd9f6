"""A Lightning `Strategy` whose module trains by a plan: the trainer's data, logging, callbacks,
schedules, evaluation and checkpoints stay.

    python python/examples/lightning_strategy.py --max_steps 40
    torchrun --nproc-per-node 2 python/examples/lightning_strategy.py --devices 2 --max_steps 40

The module has a method `loss(**batch)` of named tensors, which its steps call. Batches have one
shape, also those of an evaluation.
"""

from __future__ import annotations

import argparse
import os
from typing import Any, Mapping, Optional

import lightning
import torch
from lightning.pytorch import callbacks as cb
from lightning.pytorch.strategies import DDPStrategy
from torch.distributed.tensor import DTensor
from torch.utils.data import DataLoader, TensorDataset

import fsdp_mlir

# They read the module's weights in each step, or change how many batches one takes.
REFUSED = cb.WeightAveraging, cb.StochasticWeightAveraging, cb.GradientAccumulationScheduler


class PlanStrategy(DDPStrategy):
    """Compiles the module's loss and its optimizer with the first batch that it sees. `pipeline`:
    its options (docs/options.md); `cache_dir`: of what is compiled, by default the driver's."""

    def __init__(self, pipeline: str = "", cache_dir: Optional[str] = None, **options: Any) -> None:
        super().__init__(process_group_backend="gloo", **options)
        self.compiling = {"pipeline": pipeline, "cache_dir": cache_dir}
        self.run: Optional[fsdp_mlir.Run] = None
        self.restored: dict[str, torch.Tensor] = {}  # of the optimizer
        self.held: list[dict[str, torch.Tensor]] = []  # micro-batches of a step

    def setup(self, trainer: lightning.Trainer) -> None:
        super().setup(trainer)
        found = ", ".join(type(c).__name__ for c in trainer.callbacks if isinstance(c, REFUSED))
        if found or not self.lightning_module.automatic_optimization:
            raise ValueError(f"{found or 'optimization by hand'}: a plan has weights of its own")
        self.lightning_module.loss = self.loss
        os.environ.update(RANK=str(self.global_rank), WORLD_SIZE=str(self.world_size))

    def configure_ddp(self) -> None:
        """The plan shards the model and sums its gradients."""

    def start(self, batch: dict[str, torch.Tensor]) -> fsdp_mlir.Run:
        """The run; the first call makes it."""
        if self.run is None:
            module, trainer = self.lightning_module, self.lightning_module.trainer
            step = fsdp_mlir.TrainingStep(
                model=module.train(),
                loss=type(module).loss,
                # It has none where it only evaluates.
                optimizer=[*self.optimizers, torch.optim.SGD(module.parameters())][0],
                inputs=batch,
                data=batch,
                eval_data=batch,
                accumulate=trainer.accumulate_grad_batches,
                clip_grad_norm=trainer.gradient_clip_val,
            )
            self.run = fsdp_mlir.compile(step, **self.compiling)
            module.train(trainer.training)
            self.run.load_state_dict(self.restored)
        return self.run

    def loss(self, **batch: torch.Tensor) -> torch.Tensor:
        """In place of the module's own: a step, or the loss of an evaluation."""
        run, trainer = self.start(batch), self.lightning_module.trainer
        if not trainer.training:
            return torch.tensor(run.eval(batch)["loss"])
        self.held.append(batch)
        if len(self.held) < trainer.accumulate_grad_batches:
            return torch.zeros(())
        batches, self.held = self.held, []
        return run(batches)

    def backward(self, closure_loss: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        """It is done: without gradients, the optimizer's own step changes nothing."""
        if closure_loss.requires_grad:
            raise ValueError(
                "training_step computes what its loss(**batch) does not: move it there"
            )
        return closure_loss

    def whole(self, optimizer: bool = False) -> dict[str, torch.Tensor]:
        states = self.run.state_dict(optimizer).items() if self.run else ()
        full = ((n, t.full_tensor() if isinstance(t, DTensor) else t) for n, t in states)
        return {name: tensor.clone() for name, tensor in full}

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """The trained weights, which the module has then too."""
        self.lightning_module.load_state_dict(self.whole(), strict=False)
        return super().lightning_module_state_dict()

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        return {"run": self.whole(True), "lr": [group["lr"] for group in optimizer.param_groups]}

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        (stored,) = checkpoint["optimizer_states"]
        self.restored = stored["run"]
        for group, rate in zip(self.optimizers[0].param_groups, stored["lr"]):
            group["lr"] = rate

    def on_train_end(self) -> None:
        self.lightning_module_state_dict()

    def teardown(self) -> None:
        if self.run:
            self.run.close()
        vars(self.lightning_module).pop("loss", None)
        self.run, self.restored, self.held = None, {}, []
        super().teardown()


class Counter(lightning.LightningModule):
    """Says the next number of a row that counts upwards."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(64, 32)
        self.hidden = torch.nn.Linear(32, 64)
        self.head = torch.nn.Linear(64, 64)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits = self.head(torch.relu(self.hidden(self.embedding(x))))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        loss = self.loss(x=batch[0], y=batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], number: int) -> None:
        self.log("eval_loss", self.loss(x=batch[0], y=batch[1]), sync_dist=True)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def rows(count: int) -> DataLoader:
    first = torch.randint(64, (count, 1), generator=torch.Generator().manual_seed(1))
    numbers = (first + torch.arange(17)) % 64
    return DataLoader(TensorDataset(numbers[:, :-1], numbers[:, 1:]), 8, drop_last=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--max_steps", type=int, default=40)
    lightning.seed_everything(0)
    options = {"accelerator": "cpu", "strategy": PlanStrategy(), **vars(parser.parse_args())}
    lightning.Trainer(**options).fit(Counter(), rows(512), rows(64))

"""A Hugging Face `Trainer` whose model trains by a plan: its data, schedule, logging, callbacks,
evaluation and checkpoints stay.

    python python/examples/hf_trainer.py --output_dir out/hf --max_steps 40
    torchrun --nproc-per-node 2 python/examples/hf_trainer.py --output_dir out/hf --max_steps 40

Batches have one shape (`dataloader_drop_last`), and the loss is the mean over each batch.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Optional

import torch
from torch.distributed.tensor import DTensor
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer
from transformers import TrainingArguments

import fsdp_mlir

RUN, SCHEDULER = "run", "scheduler.pt"  # in a checkpoint of the Trainer


class PlanTrainer(Trainer):
    """Compiles the model, its loss and its optimizer with the first batch it sees.

    Args:
        pipeline: options of the pipeline (docs/options.md).
        cache_dir: of what is compiled; the driver's by default.
    """

    def __init__(
        self, *args: Any, pipeline: str = "", cache_dir: Optional[str] = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.compiling = {"pipeline": pipeline, "cache_dir": cache_dir}
        self.run: Optional[fsdp_mlir.Run] = None
        self.resumed: Optional[str] = None
        self.held: list[dict[str, torch.Tensor]] = []  # micro-batches of a step
        self.args.per_device_eval_batch_size = self.args.per_device_train_batch_size
        # The plan clips, and the model is sharded by the plan, not by Accelerate.
        self.clipping, self.args.max_grad_norm = self.args.max_grad_norm, 0.0
        self.accelerator.prepare_model = lambda model, **_: model

    def start(self, batch: dict[str, torch.Tensor]) -> fsdp_mlir.Run:
        """The run; the first call makes it."""
        if self.run is None:
            optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
            step = fsdp_mlir.TrainingStep(
                model=self.model.train(),
                loss=lambda model, **inputs: model(**inputs).loss,
                # Of an evaluation alone.
                optimizer=optimizer or torch.optim.AdamW(self.model.parameters()),
                inputs=batch,
                data=batch,
                eval_data=batch,
                seed=self.args.seed,
                accumulate=self.args.gradient_accumulation_steps,
                clip_grad_norm=self.clipping or None,
            )
            self.run = fsdp_mlir.compile(step, resume=self.resumed, **self.compiling)
        return self.run

    def training_step(
        self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        batch = dict(self._prepare_inputs(inputs))
        run = self.start(batch)
        self.held.append(batch)
        if len(self.held) < self.args.gradient_accumulation_steps:
            return torch.zeros(())
        batches, self.held = self.held, []
        run.lr = self.lr_scheduler.get_last_lr()
        return run(batches)

    def prediction_step(
        self, model: Any, inputs: dict[str, Any], *rest: Any, **options: Any
    ) -> tuple[Any, Any, Any]:
        batch = dict(self._prepare_inputs(inputs))
        return torch.tensor(self.start(batch).eval(batch)["loss"]), None, None

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Optional[float]:
        return self.run.metrics.get("grad_norm") if self.run else None

    def save_model(self, output_dir: Optional[str] = None, _internal_call: bool = False) -> None:
        """Every rank has the trained weights in its model then; one writes them."""
        for name, value in (self.run.state_dict() if self.run else {}).items():
            whole = value.full_tensor() if isinstance(value, DTensor) else value
            self.model.state_dict()[name].copy_(whole)
        super().save_model(output_dir, _internal_call)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self.run:
            folder = os.path.join(output_dir, RUN)
            if self.args.should_save:  # A Trainer writes over what an earlier run left.
                shutil.rmtree(folder, ignore_errors=True)
            self.run.checkpoint(folder)
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), os.path.join(output_dir, SCHEDULER))

    def _load_optimizer_and_scheduler(self, checkpoint: Optional[str]) -> None:
        if checkpoint is None:
            return
        self.resumed = os.path.join(checkpoint, RUN)
        self.lr_scheduler.load_state_dict(torch.load(os.path.join(checkpoint, SCHEDULER)))


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def sentences(count: int, length: int = 32) -> list[dict[str, torch.Tensor]]:
    """Made-up texts that count upwards from a random number."""
    first = torch.randint(128, (count, 1), generator=torch.Generator().manual_seed(1))
    rows = (first + torch.arange(length)) % 128
    return [{"input_ids": row, "labels": row} for row in rows]


def main(argv: list[str]) -> None:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(
        ["--use_cpu", "True", "--dataloader_drop_last", "True", "--optim", "adamw_torch", *argv]
    )
    data = sentences(512)
    trainer = PlanTrainer(
        model=tiny_llama(), args=args, train_dataset=data[64:], eval_dataset=data[:64]
    )
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    print(trainer.evaluate())
    trainer.save_model()


if __name__ == "__main__":
    main(sys.argv[1:])

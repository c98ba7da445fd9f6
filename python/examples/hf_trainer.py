"""A Hugging Face `Trainer` whose model trains by a plan: its data, schedule, logging, callbacks,
evaluation and checkpoints stay.

    python python/examples/hf_trainer.py --output_dir out/hf --max_steps 40
    torchrun --nproc-per-node 2 python/examples/hf_trainer.py --output_dir out/hf --max_steps 40

Batches have one shape (`dataloader_drop_last`); micro-batches of a step count alike.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Optional

import torch
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer
from transformers import TrainingArguments

import fsdp_mlir

RUN, SCHEDULER = "run", "scheduler.pt"  # in a checkpoint of the Trainer


class PlanTrainer(Trainer):
    """Compiles the model, its loss and its optimizer with the first batch it sees. `pipeline`: its
    options (docs/options.md); `cache_dir`: of what is compiled, by default the driver's."""

    def __init__(
        self, *args: Any, pipeline: str = "", cache_dir: Optional[str] = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        if self.args.fp16 or self.args.fsdp:
            raise ValueError("a plan of this Trainer has no loss scale, and shards by its pipeline")
        self.compiling: dict[str, Any] = {"pipeline": pipeline, "cache_dir": cache_dir}
        self.run: Optional[fsdp_mlir.Run] = None
        self.held: list[dict[str, torch.Tensor]] = []  # micro-batches of a step
        self.args.per_device_eval_batch_size = self.args.per_device_train_batch_size
        # The plan averages over ranks, clips, and shards the model; Accelerate does not.
        self.args.average_tokens_across_devices = False
        self.clipping, self.args.max_grad_norm = self.args.max_grad_norm, 0.0
        self.shorten, self.preprocess_logits_for_metrics = self.preprocess_logits_for_metrics, None
        self.accelerator.prepare_model = lambda model, **_: model

    def start(self, batch: dict[str, torch.Tensor]) -> fsdp_mlir.Run:
        """The run; the first call makes it."""
        if self.run is None:
            optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
            step = fsdp_mlir.TrainingStep(
                model=self.model.train(),
                loss=self.loss,
                optimizer=optimizer or torch.optim.AdamW(self.model.parameters()),  # to evaluate
                inputs=batch,
                data=batch,
                eval_data=batch,
                outputs=self.outputs if self.compute_metrics else None,
                seed=self.args.seed,
                accumulate=self.args.gradient_accumulation_steps,
                clip_grad_norm=self.clipping or None,
            )
            self.run = fsdp_mlir.compile(step, **self.compiling)
        return self.run

    def loss(self, model: Any, **inputs: torch.Tensor) -> torch.Tensor:
        """The Trainer's own of a micro-batch, divided by the labels that it counts."""
        labels = inputs.get("labels")
        if labels is not None and self._loss_shifts_labels:
            labels = labels[..., 1:]
        count = None if labels is None else labels.ne(-100).sum()
        with self.accelerator.autocast():
            return self.compute_loss(model, inputs, num_items_in_batch=count)

    def outputs(self, model: Any, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """What `compute_metrics` sees of each sample."""
        logits = model(**inputs).logits
        return {"logits": self.shorten(logits, inputs.get("labels")) if self.shorten else logits}

    def training_step(self, model: Any, inputs: dict[str, Any], *count: Any) -> torch.Tensor:
        model.train()  # as the Trainer does, whose evaluation leaves it in eval()
        batch = dict(self._prepare_inputs(inputs))
        run = self.start(batch)
        self.held.append(batch)
        if len(self.held) < self.args.gradient_accumulation_steps:
            return torch.zeros(())
        run.lr, batches, self.held = self.lr_scheduler.get_last_lr(), self.held, []
        return run(batches)

    def prediction_step(self, model: Any, inputs: Any, *rest: Any, **options: Any) -> tuple:
        batch = dict(self._prepare_inputs(inputs))
        values = self.start(batch).eval(batch)
        labels = batch.get("labels") if "logits" in values else None
        return torch.tensor(values["loss"]), values.get("logits"), labels

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Optional[float]:
        return self.run.metrics.get("grad_norm") if self.run else None

    def save_model(self, output_dir: Optional[str] = None, _internal_call: bool = False) -> None:
        """Every rank has the trained weights in its model then; one writes them."""
        if self.run:
            self.run.copy_to(self.model)
        super().save_model(output_dir, _internal_call)

    def _load_best_model(self) -> None:
        super()._load_best_model()
        if self.run:  # which evaluates and saves them from then on
            best = self.model.state_dict()
            self.run.load_state_dict({n: best[n] for n in self.run.state_dict() if n in best})

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self.run:
            folder = os.path.join(output_dir, RUN)
            if self.args.should_save:  # A Trainer writes over what an earlier run left.
                shutil.rmtree(folder, ignore_errors=True)
            self.run.checkpoint(folder)
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), os.path.join(output_dir, SCHEDULER))

    def _load_optimizer_and_scheduler(self, checkpoint: Optional[str]) -> None:
        if checkpoint is not None:
            self.compiling["resume"] = os.path.join(checkpoint, RUN)
            self.lr_scheduler.load_state_dict(torch.load(os.path.join(checkpoint, SCHEDULER)))


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=128, num_hidden_layers=1, **sizes))


def sentences(count: int, length: int = 32) -> list[dict[str, torch.Tensor]]:
    """Made-up texts that count upwards from a random number."""
    first = torch.randint(128, (count, 1), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in (first + torch.arange(length)) % 128]


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

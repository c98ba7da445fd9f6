"""Llama 3 as torchtitan trains it: its settings, units, optimizer, schedule, loss and step. Steps are
a plan's.

    torchrun --nproc-per-node 2 python/examples/torchtitan_llama.py --training.steps 20
    python python/examples/torchtitan_llama.py --job.config_file debug_model.toml

docs/tutorials/torchtitan.md says which part of torchtitan's train.py is where.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import tomllib
from pathlib import Path
from typing import Any, Iterator, Optional

import torch
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR

import fsdp_mlir
from corpus import load_text, train_tokenizer
from fsdp_mlir import MixedPrecisionPolicy, TrainingStep, fully_shard, init_device_mesh
from llama3 import SIZES, Llama, Size

FLAVORS = {"debugmodel": Size(6, 256, 16, 16, 768, vocabulary=2048), **SIZES}
IGNORE_INDEX = -100


@dataclasses.dataclass
class Config:
    """torchtitan's settings: `training__steps` is `steps` of the section `[training]`."""

    model__flavor: str = "debugmodel"
    optimizer__lr: float = 8e-4
    optimizer__beta1: float = 0.9
    optimizer__beta2: float = 0.95
    optimizer__eps: float = 1e-8
    optimizer__weight_decay: float = 0.1
    lr_scheduler__warmup_steps: int = 2
    lr_scheduler__decay_ratio: Optional[float] = 0.8
    lr_scheduler__min_lr_factor: float = 0.0
    training__dataset_path: Optional[str] = None
    training__local_batch_size: int = 8
    training__seq_len: int = 2048
    training__gradient_accumulation_steps: int = 1
    training__max_norm: float = 1.0
    training__steps: int = 10
    training__mixed_precision_param: str = "bfloat16"
    training__mixed_precision_reduce: str = "float32"
    parallelism__fsdp_reshard_after_forward: str = "default"
    debug__seed: int = 0


def read_config(argv: list[str]) -> Config:
    """`--section.name value`, over a TOML file of `[section] name = value`, over the defaults."""
    given = {words[0].removeprefix("--"): words[1] for words in zip(argv[::2], argv[1::2])}
    config = Config()
    file = given.pop("job.config_file", None)
    sections = tomllib.loads(Path(file).read_text()) if file else {}
    values = {
        f"{s}.{name}": value for s, table in sections.items() for name, value in table.items()
    }
    for key, value in {**values, **given}.items():
        name = key.replace(".", "__")
        if not hasattr(config, name):
            sys.exit(f"there is no setting {key}")
        old = getattr(config, name)
        kind = type(old) if old is not None else str
        setattr(config, name, kind(value))
    return config


def parallelize(model: Llama, config: Config, ranks: int) -> None:
    """torchtitan's units: the embedding, each block, and norm and head, which stay gathered."""
    policy: dict[str, Any] = {
        "mesh": init_device_mesh("cpu", (ranks,)),
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=getattr(torch, config.training__mixed_precision_param),
            reduce_dtype=getattr(torch, config.training__mixed_precision_reduce),
            cast_forward_inputs=False,
        ),
    }
    choice = config.parallelism__fsdp_reshard_after_forward
    reshard, last = choice != "never", choice == "always"
    fully_shard(model.embedding, **policy, reshard_after_forward=reshard)
    fully_shard([model.norm, model.head], **policy, reshard_after_forward=last)
    for layer in model.layers:
        fully_shard(layer, **policy, reshard_after_forward=reshard)
    fully_shard(model, **policy)
    for module in (model, model.embedding, model.norm, *model.layers):
        # The loss divides, by the tokens of all ranks; over Gloo FSDP2 asks for plain sums.
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)


def warmup_stable_decay(config: Config) -> Any:
    """A factor by step: linear to 1, level, and linear down to the smallest over the last steps."""
    steps, warmup = config.training__steps, config.lr_scheduler__warmup_steps
    ratio, least = config.lr_scheduler__decay_ratio, config.lr_scheduler__min_lr_factor
    decay = steps - warmup if ratio is None else min(round(steps * ratio), steps - warmup)
    level = steps + 1 - decay  # where it ends; a step more, so that the last rate is not 0

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        if step < level:
            return 1.0
        return least + (1 - least) * (1 - (step + 1 - level) / decay)

    return factor


def cross_entropy_loss(pred: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The sum over tokens; labels may be IGNORE_INDEX."""
    logits, labels = pred.flatten(0, 1).float(), labels.flatten()
    return F.cross_entropy(logits, labels, reduction="sum", ignore_index=IGNORE_INDEX)


def batches(config: Config, rank: int, ranks: int) -> Iterator[dict[str, torch.Tensor]]:
    """tokens and labels [batch, length]: each rank has every `ranks`-th piece of the text."""
    text, _, _ = load_text(config.training__dataset_path)
    vocabulary = FLAVORS[config.model__flavor].vocabulary
    stream = torch.tensor(train_tokenizer(text, vocabulary).encode(text).ids)
    length = config.training__seq_len + 1
    pieces = stream[: len(stream) // length * length].view(-1, length)[rank::ranks]
    size = config.training__local_batch_size
    while True:
        for start in range(0, len(pieces) - size + 1, size):
            piece = pieces[start : start + size]
            yield {"tokens": piece[:, :-1].contiguous(), "labels": piece[:, 1:].contiguous()}


def train(config: Config) -> None:
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    torch.manual_seed(config.debug__seed)
    model = Llama(FLAVORS[config.model__flavor], config.training__seq_len)
    model.init_weights()
    parallelize(model, config, ranks)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=config.optimizer__lr,
        betas=(config.optimizer__beta1, config.optimizer__beta2),
        eps=config.optimizer__eps,
        weight_decay=config.optimizer__weight_decay,
    )
    lr_scheduler = LambdaLR(optimizer, warmup_stable_decay(config))
    data = batches(config, rank, ranks)
    accumulation = config.training__gradient_accumulation_steps
    run = fsdp_mlir.compile(
        TrainingStep(
            model,
            # A step's gradient is the mean over its micro-batches.
            lambda model, tokens, labels, valid: (
                cross_entropy_loss(model(tokens), labels) / valid * accumulation
            ),
            optimizer,
            inputs={**next(batches(config, rank, ranks)), "valid": torch.tensor(1)},
            lr_schedule=lr_scheduler,
            steps=config.training__steps,
            accumulate=accumulation,
            clip_grad_norm=config.training__max_norm,
        ),
        pipeline="remat=selective",
    )
    for step in range(1, config.training__steps + 1):
        microbatches = [next(data) for _ in range(accumulation)]
        valid = sum((batch["labels"] != IGNORE_INDEX).sum() for batch in microbatches)
        valid = torch.tensor(round(run.mean({"valid": valid})["valid"] * ranks))
        loss = run([{**batch, "valid": valid} for batch in microbatches])
        loss = run.mean({"loss": loss})["loss"] * ranks
        if rank == 0:
            print(f"step: {step} loss: {loss:.8f} grad_norm: {run.metrics['grad_norm']:.8f}")
    run.save("model.safetensors")


if __name__ == "__main__":
    train(read_config(sys.argv[1:]))

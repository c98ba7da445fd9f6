"""Trains a causal language model on a text file as Transformers' `run_clm.py` does: its blocks of
tokens, a model from a configuration, its evaluation with accuracy and perplexity. Steps are a plan's.

docs/tutorials/run_clm.md has the commands. With the Trainer of transformers itself in place of
PlanTrainer, which is all that the port changes, this is the original.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Iterator, Optional

from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoTokenizer,
    HfArgumentParser,
    PreTrainedTokenizerFast,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

from corpus import train_tokenizer
from hf_trainer import PlanTrainer as Trainer

TEXTS = 1000  # lines that are cut into blocks together, as by `datasets.Dataset.map`


@dataclass
class ModelArguments:
    model_type: str = field(default="gpt2", metadata={"help": "one of CONFIG_MAPPING"})
    config_overrides: Optional[str] = field(default=None, metadata={"help": "n_embd=10,n_layer=2"})
    tokenizer_name: Optional[str] = field(
        default=None, metadata={"help": "a tokenizer or its folder; else one is learned"}
    )


@dataclass
class DataArguments:
    train_file: str = field(metadata={"help": "a text file"})
    validation_file: str = field(metadata={"help": "a text file"})
    block_size: int = field(default=1024, metadata={"help": "tokens in a sequence"})
    vocab_size: int = field(default=5000, metadata={"help": "of a tokenizer that is learned"})


def group_texts(file: str, tokenizer: Any, block_size: int) -> list[dict[str, list[int]]]:
    """Blocks of a file's tokens. What is left of each thousand lines fills no block and is dropped.

    Raises:
        ValueError: the file has fewer tokens than a block.
    """

    def blocks() -> Iterator[list[int]]:
        for start in range(0, len(lines), TEXTS):
            tokens = list(chain(*tokenizer(lines[start : start + TEXTS])["input_ids"]))
            for first in range(0, len(tokens) - block_size + 1, block_size):
                yield tokens[first : first + block_size]

    lines = Path(file).read_text().splitlines(keepends=True)
    rows = [
        {"input_ids": block, "attention_mask": [1] * block_size, "labels": list(block)}
        for block in blocks()
    ]
    if not rows:
        raise ValueError(
            f"{file} fills no block of {block_size} tokens; give a smaller --block_size"
        )
    return rows


def tokenizer_of(model_args: ModelArguments, data_args: DataArguments) -> Any:
    if model_args.tokenizer_name:
        return AutoTokenizer.from_pretrained(model_args.tokenizer_name)
    learned = train_tokenizer(Path(data_args.train_file).read_text(), data_args.vocab_size)
    return PreTrainedTokenizerFast(tokenizer_object=learned)


def preprocess_logits_for_metrics(logits: Any, labels: Any) -> Any:
    return logits.argmax(dim=-1)


def compute_metrics(predictions: Any) -> dict[str, float]:
    """How many tokens are guessed right from those before them."""
    preds, labels = predictions
    return {"accuracy": float((preds[:, :-1] == labels[:, 1:]).mean())}


def main(argv: list[str]) -> None:
    parser = HfArgumentParser((ModelArguments, DataArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses(argv)
    set_seed(training_args.seed)

    tokenizer = tokenizer_of(model_args, data_args)
    config = CONFIG_MAPPING[model_args.model_type]()
    if model_args.config_overrides is not None:
        config.update_from_string(model_args.config_overrides)
    config.vocab_size = len(tokenizer)
    model = AutoModelForCausalLM.from_config(config)

    train_dataset = group_texts(data_args.train_file, tokenizer, data_args.block_size)
    eval_dataset = group_texts(data_args.validation_file, tokenizer, data_args.block_size)

    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=train_dataset if training_args.do_train else None,
        eval_dataset=eval_dataset if training_args.do_eval else None,
        processing_class=tokenizer,
        data_collator=default_data_collator,
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=preprocess_logits_for_metrics,
    )

    if training_args.do_train:
        result = trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
        trainer.save_model()
        trainer.log_metrics("train", result.metrics)
        trainer.save_state()

    if training_args.do_eval:
        metrics = trainer.evaluate()
        metrics["perplexity"] = math.exp(metrics["eval_loss"])
        trainer.log_metrics("eval", metrics)
        trainer.save_metrics("eval", metrics)


if __name__ == "__main__":
    main(sys.argv[1:])

"""The model of docs/sharding.md: blocks of Llama 3 8B in bfloat16, whose sizes alone are needed."""

import dataclasses
import importlib
import pathlib
import sys

import torch
from torch._subclasses import FakeTensorMode

from fsdp_mlir import MixedPrecisionPolicy, TrainingStep, fully_shard

BLOCKS, TOKENS = 8, 2048
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "python" / "examples"


def training_step(argv: list[str]) -> TrainingStep:
    sys.path.append(str(EXAMPLES))
    llama3 = importlib.import_module("llama3")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    with FakeTensorMode():
        size = dataclasses.replace(llama3.SIZES["8b"], layers=BLOCKS)
        model = llama3.Llama(size, TOKENS)
        for layer in model.layers:
            fully_shard(layer, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
        text = torch.randint(size.vocabulary, (1, TOKENS))
        optimizer = torch.optim.AdamW(model.parameters())
        inputs = {"tokens": text.clone(), "targets": text.clone()}
    return TrainingStep(model, llama3.loss, optimizer, inputs=inputs, steps=1)

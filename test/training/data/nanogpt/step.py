"""train.py as a step file: its loop is the plan's, and the rest stays."""

import math
import os

import numpy as np
import torch
from model import GPT

from fsdp_mlir import TrainingStep

data_dir = os.environ["DATA_DIR"]
batch_size, block_size = 4, 16
vocab_size, n_embd, n_head, n_layer = 32, 32, 4, 1
gradient_accumulation_steps = 2
learning_rate, min_lr = 2.0**-7, 2.0**-10
warmup_iters, lr_decay_iters, max_iters = 2, 8, 8
weight_decay, beta1, beta2, grad_clip = 1e-1, 0.9, 0.95, 1.0

torch.manual_seed(1337)


def get_batch(split):
    # recreate np.memmap every batch to avoid a memory leak
    data = np.memmap(os.path.join(data_dir, f"{split}.bin"), dtype=np.uint16, mode="r")
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy((data[i : i + block_size]).astype(np.int64)) for i in ix])
    y = torch.stack(
        [torch.from_numpy((data[i + 1 : i + 1 + block_size]).astype(np.int64)) for i in ix]
    )
    return x, y


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    if it > lr_decay_iters:
        return min_lr
    decay_ratio = (it - warmup_iters) / (lr_decay_iters - warmup_iters)
    coeff = 0.5 * (1.0 + math.cos(math.pi * decay_ratio))
    return min_lr + coeff * (learning_rate - min_lr)


model = GPT(vocab_size, block_size, n_embd, n_head, n_layer)
optimizer = model.configure_optimizers(weight_decay, learning_rate, (beta1, beta2))


def training_step(argv):
    empty = torch.zeros(batch_size, block_size, dtype=torch.long)
    return TrainingStep(
        model,
        loss=lambda model, X, Y: model(X, Y)[1],
        optimizer=optimizer,
        inputs={"X": empty, "Y": empty},
        data=lambda: get_batch("train"),
        lr_schedule=lambda iter_num: get_lr(iter_num) / learning_rate,
        steps=max_iters,
        accumulate=gradient_accumulation_steps,
        clip_grad_norm=grad_clip,
    )

"""PLAN WEIGHTS FOLDER STEPS: two runs one after the other, under torchrun."""

import pathlib
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from training.loop import calls

plan, weights, folder, steps = sys.argv[1:]
dist.init_process_group("gloo")
for name in ("first", "second"):
    found = calls.train(plan, weights, f"{folder}/{name}.safetensors", int(steps))
    if dist.get_rank() == 0:
        torch.save(found, f"{folder}/{name}.pt")
dist.barrier()
dist.destroy_process_group()

"""A loop of one's own: takes a plan's steps with the samples of a file in their order, and prints
the losses. Every second batch is given on the GPU.

Words: PLAN WEIGHTS DATA SAVED SAMPLES-A-BATCH STEPS [--cuda-graph]
"""

from __future__ import annotations

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[0:1] = [str(ROOT / "python"), str(ROOT / "test")]

import torch

import fsdp_mlir
from gpu import tensors


def main(
    plan: str, weights: str, data: str, saved: str, batch: str, steps: str, *flags: str
) -> None:
    torch.set_num_threads(1)
    samples, size = tensors.read(pathlib.Path(data)), int(batch)
    batches = min(map(len, samples.values())) // size
    losses = []
    with fsdp_mlir.load(plan, weights, cuda_graph="--cuda-graph" in flags) as run:
        there = next(iter(run.state_dict().values())).device
        for step in range(int(steps)):
            part = slice(step % batches * size, (step % batches + 1) * size)
            given = {name: value[part] for name, value in samples.items()}
            if step % 2:
                given = {name: value.to(there) for name, value in given.items()}
            losses.append(run(given).item())
        run.save(saved)
    print(json.dumps({"device": str(there), "losses": losses}))


main(*sys.argv[1:])

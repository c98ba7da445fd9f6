"""A data command: `python feeder.py TOKENS KIND` feeds a rank with the loader of that kind."""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from data import step
from fsdp_mlir import feed

RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
SLOW_S = 0.02  # of each sample
BROKEN = 19  # the last sample of the second batch of rank 1 of 2


class Samples(Dataset):
    """All windows as dicts of int64, or what a fault makes of them."""

    def __init__(self, tokens: str, fault: str = "") -> None:
        self.windows, self.fault = step.windows(tokens, dtype="uint16"), fault

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if RANK == RANKS - 1 and index == BROKEN:
            self.fail()
        if RANK == RANKS - 1 and self.fault == "slow":
            time.sleep(SLOW_S)
        sample = {name: tensor.long() for name, tensor in self.windows[index].items()}
        if self.fault == "noise":  # of the worker's generator, or this process's
            sample["x"] = (sample["x"] + torch.randint(2, sample["x"].shape)) % step.VOCABULARY
        return sample

    def fail(self) -> None:
        if self.fault == "raises":
            raise ValueError("the picture is broken")
        if self.fault in ("killed", "ends"):  # a worker, and the loader itself
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "hangs":
            time.sleep(1000)


def loader_of(tokens: str, kind: str, rank: int, ranks: int, workers: int = 0) -> DataLoader:
    samples = Samples(tokens, kind)
    sampler = DistributedSampler(samples, num_replicas=ranks, rank=rank, seed=3, drop_last=True)
    return DataLoader(
        samples,
        batch_size=step.BATCH,
        sampler=sampler,
        drop_last=kind != "short",
        num_workers=workers,
        collate_fn=as_tuples if kind == "tuples" else None,
    )


def as_tuples(samples: list) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = (torch.stack([sample[name] for sample in samples]) for name in ("x", "y"))
    return x.int() if RANK == RANKS - 1 and os.environ.get("WRONG") else x, y


class Announced:
    """A loader that has another number of batches than it says."""

    def __init__(self, loader: DataLoader, more: int) -> None:
        self.loader, self.more = loader, more

    def __len__(self) -> int:
        return len(self.loader) + self.more

    def __iter__(self):
        return iter(self.loader)


def get_batch(tokens: str):
    """nanoGPT's."""
    data = step.tokens()
    torch.manual_seed(7 + RANK)

    def get() -> tuple[torch.Tensor, torch.Tensor]:
        ix = torch.randint(len(data) - step.LENGTH, (step.BATCH,)).tolist()
        x, y = (
            [torch.from_numpy(data[i + d : i + d + step.LENGTH].astype("int64")) for i in ix]
            for d in (0, 1)
        )
        return torch.stack(x), torch.stack(y)

    return get


def main() -> None:
    tokens, kind, *rest = sys.argv[1:]
    torch.manual_seed(3)
    if kind == "nothing":
        return
    if kind == "get_batch":
        feed(get_batch(tokens))
        return
    loader = loader_of(tokens, kind, RANK, RANKS, int(rest[0]) if rest else 0)
    if kind == "fewer":
        loader = Announced(loader, int(RANK == RANKS - 1))
    if kind == "announced":
        loader = Announced(loader, 1)
    feed(loader, names=("x", "y") if kind == "tuples" else None)


if __name__ == "__main__":
    main()

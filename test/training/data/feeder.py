"""A data command: `python feeder.py TOKENS KIND` feeds a rank with the loader of that kind."""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader

from training.data import step
from fsdp_mlir import Parquet, Shards, feed

RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
SLOW_S = 0.02  # of each sample
BROKEN = 19  # the last sample of the second batch of rank 1 of 2


class Samples(Dataset):
    """All windows as dicts of int64, or what a fault makes of them."""

    def __init__(self, tokens: str, fault: str = "") -> None:
        self.fault = fault
        if fault == "arrow":
            self.windows = Shards(tokens, columns=["x", "y"])
        else:
            self.windows = step.windows(tokens, dtype="uint16")

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if RANK == RANKS - 1 and index == BROKEN:
            self.fail()
        if RANK == RANKS - 1 and self.fault == "slow":
            time.sleep(SLOW_S)
        sample = {name: tensor.long() for name, tensor in self.windows[index].items()}
        if self.fault in ("noise", "stateful"):  # of the worker's generator, or this process's
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
    kinds = {"stateful": StatefulDataLoader, "state": StatefulDataLoader}
    return kinds.get(kind, DataLoader)(
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


class Tally:
    """Leaves in a file the number of each batch that a loader with a state makes."""

    def __init__(self, loader: StatefulDataLoader) -> None:
        self.loader, self.first = loader, 0

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str):
        return getattr(self.loader, name)

    def load_state_dict(self, state: dict) -> None:
        self.loader.load_state_dict(state["loader"])
        self.first = state["next"]

    def state_dict(self) -> dict:
        return {"loader": self.loader.state_dict(), "next": self.next}

    def __iter__(self):
        first, self.first = self.first % len(self), 0
        return self.counted(enumerate(iter(self.loader), first + 1))

    def counted(self, batches):
        for self.next, batch in batches:
            with open(os.environ["MADE"], "a") as file:
                file.write(f"{self.next - 1}\n")
            yield batch


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
    if kind == "parquet":
        feed(Parquet(tokens, step.BATCH, dtype=torch.int64, seed=3))
        return
    loader = loader_of(tokens, kind, RANK, RANKS, int(rest[0]) if rest else 0)
    if kind == "fewer":
        loader = Announced(loader, int(RANK == RANKS - 1))
    if kind == "announced":
        loader = Announced(loader, 1)
    if kind in ("stateful", "state"):
        loader = Tally(loader)
    feed(loader, names=("x", "y") if kind == "tuples" else None)


if __name__ == "__main__":
    main()

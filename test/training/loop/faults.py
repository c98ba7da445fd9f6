"""A data set of which one sample is wrong, in a way that a test names; a disk that is full."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import time
from typing import Iterator

import torch
from torch.utils.data import DataLoader, Dataset

from .step import BATCH, samples

BAD = BATCH + 1  # in the second batch, which the second worker makes
BATCHES = 4


class Faulty(Dataset):
    def __init__(self, fault: str) -> None:
        self.fault, self.samples = fault, samples()

    def __len__(self) -> int:
        return (BATCHES - (self.fault == "short")) * BATCH

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        sample = {name: tensor[index] for name, tensor in self.samples.items()}
        if self.fault == "dtype" and index // BATCH == BAD // BATCH:
            sample["x"] = sample["x"].double()
        if index == BAD:
            self.spoil(sample)
        return sample

    def spoil(self, sample: dict[str, torch.Tensor]) -> None:
        if self.fault == "raises":
            raise ValueError("the picture is broken")
        if self.fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "hangs":
            time.sleep(1000)
        if self.fault == "nan":
            sample["x"] = torch.full_like(sample["x"], torch.nan)


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Within it, files of this process have no room for more than some bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def loader_of(fault: str) -> DataLoader:
    # A rank that stays up for the tests ends with them, and may have no children otherwise.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    return DataLoader(
        Faulty(fault),
        BATCH,
        num_workers=2,
        timeout=3 if fault == "hangs" else 0,
        multiprocessing_context="fork",  # as by default, and not as these ranks were started
    )

"""A loader's own state, as `state_dict()` gives it, in the bytes that a checkpoint holds."""

from __future__ import annotations

import io
import pickle
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass
class LoaderState:
    """Where a loader is behind a batch.

    Attributes:
        epoch: number of the pass that gave it.
        batches: of that pass, or of a loader without a length of all passes, that it has given.
        passes: passes that a loader without a length began before this one.
        loader: what its `state_dict()` gave.
        generators: states of the generators of torch, `random` and NumPy in the loader's process.
    """

    epoch: int
    batches: int
    passes: int
    loader: Any
    generators: dict[str, Any]

    @classmethod
    def of(cls, loader: Any, epoch: int, batches: int, passes: int) -> "LoaderState":
        name, keys, *rest = np.random.get_state()
        generators = {
            "torch": torch.get_rng_state(),
            "random": random.getstate(),
            "numpy": (name, keys.tolist(), *rest),
        }
        return cls(epoch, batches, passes, loader.state_dict(), generators)

    def set_generators(self) -> None:
        torch.set_rng_state(self.generators["torch"])
        random.setstate(self.generators["random"])
        np.random.set_state(self.generators["numpy"])


def has_state(loader: Any) -> bool:
    """Whether a loader can tell where it is, as torchdata's StatefulDataLoader can."""
    return all(callable(getattr(loader, f"{do}state_dict", None)) for do in ("", "load_"))


def pack(state: LoaderState) -> bytes:
    """The bytes of a state of tensors, numbers, texts, bytes, lists, tuples and dicts."""
    buffer = io.BytesIO()
    torch.save(vars(state), buffer)
    return buffer.getvalue()


def unpack(data: bytes) -> LoaderState:
    """The state that `pack` gave; no code in it is run.

    Raises:
        ValueError: it holds other objects than `pack` names.
    """
    try:
        return LoaderState(**torch.load(io.BytesIO(data), weights_only=True))
    except pickle.UnpicklingError as error:
        found = str(error).partition("GLOBAL ")[2].partition(" ")[0]
        what = f", and has {found}" if found else ""
        raise ValueError(
            "the loader's state_dict() must be of tensors, numbers, texts, bytes, lists and dicts, "
            f"for a checkpoint to hold it{what}"
        ) from error

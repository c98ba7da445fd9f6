"""Which worker of a DataLoader made a batch, and of which samples."""

from __future__ import annotations

import os
import traceback
import types
import weakref
from collections import deque
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

# As many batches are remembered: what prefetches by itself keeps some.
REMEMBERED = 256
# Of as many iterators.
ITERATORS = 64
# As many samples are named one by one.
NAMED = 16


class Origin(NamedTuple):
    """`worker`: its number; None: the process itself. `samples`: what the sampler gave, a list
    where the loader makes batches; None: it is not known."""

    worker: Optional[int]
    samples: Any

    def __str__(self) -> str:
        return ", ".join(part for part in (self.of_worker(), self._samples()) if part)

    def of_worker(self) -> str:
        return "" if self.worker is None else f"worker {self.worker}"

    def of_row(self, row: int) -> str:
        """The words for one row of the batch."""
        samples = self.samples
        if not isinstance(samples, (list, tuple)) or row >= len(samples):
            return str(self)
        return ", ".join(p for p in (self.of_worker(), f"sample {samples[row]}") if p)

    def _samples(self) -> str:
        if not isinstance(self.samples, (list, tuple)):
            return "" if self.samples is None else f"sample {self.samples}"
        if len(self.samples) <= NAMED:
            return f"samples {', '.join(map(str, self.samples))}"
        return f"samples {self.samples[0]} … {self.samples[-1]}"


Array = Union[torch.Tensor, np.ndarray]

_recent: "deque[tuple[list[weakref.ref[Array]], Origin]]" = deque(maxlen=REMEMBERED)


class Asked:
    """What an iterator of a DataLoader asked for and has not got yet, and whom it asked. It
    outlives the iterator: a loop drops it before anyone looks at the error that ended the loop."""

    def __init__(self, iterator: Any) -> None:
        self.samples: dict[int, Any] = {}  # by the batch's number
        self.pids = [worker.pid for worker in getattr(iterator, "_workers", ())]
        self._is_iterable = iterator._dataset_kind == _DatasetKind.Iterable
        self._in_order = getattr(iterator, "_in_order", True)
        self._have_more = getattr(iterator, "_workers_status", ())  # PyTorch's own list

    def origin(self, number: int, samples: Any) -> Origin:
        """The origin of batch `number`, which has these samples."""
        # Workers take turns, unless the first one ready is taken, or one has no more.
        by_turns = self._in_order and not (self._is_iterable and not all(self._have_more))
        return Origin(
            number % len(self.pids) if self.pids and by_turns else None,
            # Those of an iterable data set have no number.
            samples if not self._is_iterable and (by_turns or not self.pids) else None,
        )

    def due(self, worker: Optional[int] = None) -> Optional[Origin]:
        """The batch that is waited for, or that one of the workers has to make."""
        for number in sorted(self.samples):
            if not self.pids or worker is None or number % len(self.pids) == worker:
                return self.origin(number, self.samples[number])
        return None


_lately: "deque[Asked]" = deque(maxlen=ITERATORS)


def asked_by(iterator: Any) -> Optional[Asked]:
    """What an iterator has asked for, if it is one that is followed."""
    return getattr(iterator, "_fsdp_mlir_asked", None)


def asked_of(pids: Sequence[int]) -> Optional[Asked]:
    """The requests to worker processes, of which only the numbers are known."""
    return next((one for one in reversed(_lately) if set(one.pids) & set(pids)), None)


def follow_loaders() -> None:
    """Remembers from now on, in this process, where the batches of DataLoaders come from."""
    if hasattr(_BaseDataLoaderIter, "_fsdp_mlir_next"):
        return
    next_index, advance = _BaseDataLoaderIter._next_index, _BaseDataLoaderIter.__next__

    def asking(self: Any) -> Any:
        index = next_index(self)
        number = getattr(self, "_send_idx", self._num_yielded)
        if number == 0:  # new, or its workers begin an epoch
            self._fsdp_mlir_asked = Asked(self)
            _lately.append(self._fsdp_mlir_asked)
        if asked := asked_by(self):
            asked.samples[number] = index
        return index

    def remembering(self: Any) -> Any:
        batch = advance(self)
        number = getattr(self, "_rcvd_idx", self._num_yielded) - 1
        if asked := asked_by(self):
            refs = [weakref.ref(array) for array in arrays_of(batch)]
            _recent.append((refs, asked.origin(number, asked.samples.pop(number, None))))
        return batch

    _BaseDataLoaderIter._fsdp_mlir_next = advance  # type: ignore[attr-defined]
    _BaseDataLoaderIter._next_index = asking  # type: ignore[method-assign]
    _BaseDataLoaderIter.__next__ = remembering  # type: ignore[method-assign]


def arrays_of(batch: Any) -> list[Array]:
    """Tensors, and arrays of NumPy, at the top of a batch."""
    if isinstance(batch, (torch.Tensor, np.ndarray)):
        return [batch]
    members: Iterable[Any] = ()
    if isinstance(batch, Mapping):
        members = batch.values()
    elif isinstance(batch, (list, tuple)):
        members = batch
    return [member for member in members if isinstance(member, (torch.Tensor, np.ndarray))]


def origin_of(batch: Any) -> Optional[Origin]:
    """The origin of a batch that still has a tensor or an array as a DataLoader gave it."""
    arrays = arrays_of(batch)
    for refs, origin in reversed(_recent):
        known = [ref() for ref in refs]
        if any(array is one for array in arrays for one in known):
            return origin
    return None


def words_of(batch: Any, row: int = -1) -> str:
    """Where a batch, or with `row` one row of it, comes from, as the end of a sentence; "" where
    nobody knows."""
    origin = origin_of(batch)
    text = "" if origin is None else str(origin) if row < 0 else origin.of_row(row)
    return f"; it comes from {text}" if text else ""


def words_of_step(given: Any, number: int, row: int) -> str:
    """words_of() of batch `number` of those that a step was given, one or a list."""
    return words_of(given[number] if isinstance(given, (list, tuple)) else given, row)


def iterator_in(frames: Iterable[types.FrameType]) -> Any:
    """The innermost iterator of a DataLoader that frames, from the outermost one on, are within."""
    found = None
    for frame in frames:
        if isinstance(one := frame.f_locals.get("self"), _BaseDataLoaderIter):
            found = one
    return found


def place_of(frame: Optional[types.FrameType], worker: Optional[int] = None) -> str:
    """Where a loader's process, or worker `worker` of it, is: as far as they can be told the
    worker, the sample, and the line."""
    frames = [frame for frame, _ in traceback.walk_stack(frame)][::-1]
    parts = [] if worker is None else [f"worker {worker}"]
    if sample := sample_in(frames):
        parts.append(sample)
    elif worker is None and (asked := asked_by(iterator_in(frames))):
        parts += [str(origin)] if (origin := asked.due()) else []
    if frames:
        code = frames[-1].f_code
        parts.append(f"{os.path.basename(code.co_filename)}:{frames[-1].f_lineno}")
    return ", ".join(parts)


def sample_in(frames: Iterable[types.FrameType]) -> str:
    """The sample, or the samples, that a map-style data set is asked for, in frames from the
    outermost one on."""
    from torch.utils.data._utils import fetch

    samples = ""
    for frame in frames:
        if frame.f_code.co_filename != fetch.__file__:
            continue
        if "idx" in frame.f_locals:
            return f"sample {frame.f_locals['idx']}"
        if "possibly_batched_index" in frame.f_locals:
            samples = str(Origin(None, frame.f_locals["possibly_batched_index"]))
    return samples

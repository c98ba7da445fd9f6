"""Feeds a rank with the batches of any loader: the Python end of the ring (docs/data.md)."""

from __future__ import annotations

import itertools
import json
import mmap
import os
import re
import select
import struct
import sys
import traceback
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from .dtypes import DTYPES
from .tensor_file import as_bytes

Loader = Union[Iterable[Any], Callable[[], Any]]

HEADER = struct.Struct("<8s8Q2qqQ")
SLOT = struct.Struct("<Q4q")
EXTENT_AT, ERROR_BYTES_AT = 88, 96
VARIABLE = "FSDP_MLIR_RING"
NOTE = "fsdp_mlir: sample "


class FeedError(Exception):
    """A batch that the plan cannot read; the message is for the user."""


class _RankIsGone(Exception):
    pass


class Column(NamedTuple):
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int
    bytes: int


class Ring:
    """Slots in the memory of the rank that started this process.

    Attributes:
        rank, ranks, seed: of the run.
        columns: what a batch has, in the plan's order.
    """

    def __init__(self, descriptors: str) -> None:
        file, self._ready, self._freed, self._alive = map(int, descriptors.split(","))
        self._memory = mmap.mmap(file, os.fstat(file).st_size)
        header = HEADER.unpack_from(self._memory)
        magic, version, self._slots, self._slot_bytes, self._slots_begin = header[:5]
        text, text_bytes, self._error, self._error_capacity = header[5:9]
        if magic != b"FSDPRING" or version != 1:
            raise FeedError("the rank's ring is of another version; build both together")
        about = json.loads(self._memory[text : text + text_bytes])
        self.rank, self.ranks, self.seed = about["rank"], about["ranks"], about["seed"]
        dtypes = {row.name: row.dtype for row in DTYPES.values()}
        self.columns = [
            Column(c["name"], dtypes[c["dtype"]], tuple(c["shape"]), c["offset"], c["bytes"])
            for c in about["columns"]
        ]
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self._poll = select.poll()
        self._poll.register(self._freed, select.POLLIN)
        self._poll.register(self._alive, 0)  # hangs up
        self._count = 0

    def announce(self, batches: int) -> None:
        """Says how many batches an epoch has (-1: it has no end)."""
        struct.pack_into("<q", self._memory, EXTENT_AT, batches)
        os.eventfd_write(self._ready, 1)

    def await_slot(self) -> None:
        """Waits until the rank gives a slot; ends where the rank is gone."""
        events = dict(self._poll.poll())
        if self._alive in events:
            raise _RankIsGone
        os.eventfd_read(self._freed)

    def start(self) -> tuple[int, int]:
        """The epoch and batch that the run begins with, once there is a slot."""
        return HEADER.unpack_from(self._memory)[9:11]

    def put(self, epoch: int, number: int, tensors: Sequence[torch.Tensor]) -> None:
        """Fills the slot that was waited for."""
        begin = self._slots_begin + self._count % self._slots * self._slot_bytes
        nan = (-1, -1)
        for i, (column, tensor) in enumerate(zip(self.columns, tensors)):
            at = begin + column.offset
            self._bytes[at : at + column.bytes] = as_bytes(tensor)
            if nan == (-1, -1) and tensor.is_floating_point() and tensor.numel():
                rows = torch.isnan(tensor).flatten(1).any(1) if tensor.dim() > 1 else tensor.isnan()
                if rows.any():
                    nan = (i, int(rows.int().argmax()))
        self._count += 1
        SLOT.pack_into(self._memory, begin, self._count, epoch, number, *nan)
        os.eventfd_write(self._ready, 1)

    def fail(self, message: str) -> None:
        """Leaves the rank an error, of one line."""
        text = message.encode(errors="replace")[: self._error_capacity]
        self._memory[self._error : self._error + len(text)] = text
        struct.pack_into("<Q", self._memory, ERROR_BYTES_AT, len(text))


def batch_count(loader: Loader) -> Optional[int]:
    """Batches of an epoch, where the loader has such a number."""
    try:
        return len(loader)  # type: ignore[arg-type]
    except TypeError:
        return None


def feed(
    loader: Union[Loader, Callable[[], Loader]], names: Optional[Sequence[str]] = None
) -> None:
    """Feeds the rank that started this process with `fsdp-run --data-command`; returns when the
    rank needs no more.

    Args:
        loader: a `DataLoader` or another iterable, which is iterated once for each epoch; or a
            function without arguments that gives a batch with each call. A batch is a dict by
            input name, a tuple in the order of `names`, or the tensor of the only input.
        names: of the inputs (the plan's, in its order).

    PyTorch's generator has another seed in each process: seed it before, for a run to be repeatable.
    Exits with status 1 where the loader fails: the rank is told why, and standard error has the
    traceback.
    """
    feed_from(lambda _: (loader, names))


def feed_from(make: Callable[[int], tuple[Loader, Optional[Sequence[str]]]]) -> None:
    """As `feed`, of the loader and the names that `make(seed)` gives; the seed is the run's plus
    the rank."""
    if VARIABLE not in os.environ:
        raise SystemExit(
            "error: no rank started this process; run it by fsdp-run --data-command 'COMMAND'"
        )
    ring = Ring(os.environ[VARIABLE])
    place = _Place()
    try:
        _feed(ring, place, *make(ring.seed + ring.rank))
    except _RankIsGone:
        return
    except FeedError as error:
        ring.fail(f"{place}{error}")
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
            raise
        traceback.print_exc()
        ring.fail(f"{place}{_describe(error, place.iterator)}")
    sys.stderr.flush()
    sys.exit(1)


class _Place:
    """Where a loader is, for messages."""

    batch: Optional[int] = None
    epoch: Optional[int] = None
    iterator: Any = None

    def __str__(self) -> str:
        if self.batch is None:
            return "the loader cannot be made: "
        of = "" if self.epoch is None else f" of epoch {self.epoch}"
        return f"the loader failed at batch {self.batch}{of}: "

    def worker(self) -> str:
        workers = getattr(self.iterator, "_num_workers", 0)
        return f" from worker {self.batch % workers}" if workers and self.batch is not None else ""


def _feed(ring: Ring, place: _Place, loader: Loader, names: Optional[Sequence[str]]) -> None:
    length = batch_count(loader)
    order = list(names) if names is not None else [column.name for column in ring.columns]
    _name_samples()
    ring.announce(-1 if length is None else length)
    ring.await_slot()
    epoch, batch = ring.start()
    place.batch, place.epoch = batch, epoch if length is not None else None
    has_slot = True
    for epoch, number, value in _batches(loader, length, epoch, batch, place):
        tensors = _tensors(value, order, ring.columns, place)
        if not has_slot:
            ring.await_slot()
        ring.put(epoch, number, tensors)
        has_slot = False


def _batches(
    loader: Loader, length: Optional[int], first_epoch: int, first: int, place: _Place
) -> Iterator[tuple[int, int, Any]]:
    """Epoch, number and batch, from the first one on. What comes before is made and left out, for
    random numbers to be those of a run from the start."""
    if length is None:
        endless = _calls(loader) if _is_function(loader) else _passes(loader, place)
        for number, value in enumerate(endless):
            place.batch = max(first, number + 1)
            if number >= first:
                yield 0, number, value
        return
    for epoch in itertools.count(_replayed(loader, first_epoch)):
        begin = first if epoch == first_epoch else 0
        _set_epoch(loader, epoch)
        place.iterator, place.epoch, place.batch = None, max(epoch, first_epoch), begin
        place.iterator = iterator = iter(loader)  # type: ignore[arg-type]
        count = 0
        for count, value in enumerate(iterator, 1):
            if count > length:
                raise FeedError(f"it has more batches than the {length} of its length")
            if (epoch, count) > (first_epoch, first):
                yield epoch, count - 1, value
            place.batch = max(count, begin)
        if count < length:
            raise FeedError(f"it has ended after {count} of the {length} batches of its length")


def _is_function(loader: Loader) -> bool:
    return callable(loader) and not hasattr(loader, "__iter__")


def _calls(function: Loader) -> Iterator[Any]:
    while True:
        yield function()  # type: ignore[operator]


def _passes(loader: Loader, place: _Place) -> Iterator[Any]:
    for epoch in itertools.count():
        _set_epoch(loader, epoch)
        place.iterator = iterator = iter(loader)  # type: ignore[arg-type]
        empty = True
        for value in iterator:
            yield value
            empty = False
        if empty:
            raise FeedError("it gives no batch; give an iterable that can be iterated again")


def _set_epoch(loader: Any, epoch: int) -> None:
    """Tells whatever wants to know: the loader, its samplers and its data set."""
    batches = getattr(loader, "batch_sampler", None)
    told: list[Any] = []
    for thing in (
        loader,
        batches,
        getattr(batches, "sampler", None),
        getattr(loader, "sampler", None),
        getattr(loader, "dataset", None),
    ):
        if callable(getattr(thing, "set_epoch", None)) and not any(thing is t for t in told):
            thing.set_epoch(epoch)
            told.append(thing)


def _replayed(loader: Any, epochs: int) -> int:
    """Draws the random numbers of epochs without loading them, where nothing else is random in this
    process; gives the first epoch that must be loaded."""
    if (
        type(loader) is not DataLoader
        or not loader.num_workers
        or loader.persistent_workers
        or isinstance(loader.dataset, IterableDataset)
    ):
        return 0
    for epoch in range(epochs):
        _set_epoch(loader, epoch)
        # As an iterator of it does: the workers' seed, then the order.
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        for _ in loader.batch_sampler if loader.batch_sampler is not None else loader.sampler:
            pass
    return epochs


def _tensors(
    value: Any, names: Sequence[str], columns: Sequence[Column], place: _Place
) -> list[torch.Tensor]:
    """The columns of a batch; raises FeedError for what the plan does not read."""
    if isinstance(value, Mapping):
        by_name = value
    elif isinstance(value, (tuple, list)):
        if len(value) != len(names):
            raise FeedError(
                f"it has {len(value)} members, and inputs are {', '.join(names)}; give as many, or "
                "a dict"
            )
        by_name = dict(zip(names, value))
    else:
        by_name = {names[0]: value}
    tensors, problems = [], []
    for column in columns:
        found = by_name.get(column.name)
        if isinstance(found, np.ndarray):
            found = torch.from_numpy(found)
        wanted = f"{_dtype(column.dtype)}{list(column.shape)}"
        if column.name not in by_name:
            problems.append(f"it has no {column.name}")
        elif not isinstance(found, torch.Tensor):
            problems.append(f"{column.name} is {type(found).__name__}, the plan reads {wanted}")
        elif found.dtype != column.dtype or tuple(found.shape) != column.shape:
            got = f"{_dtype(found.dtype)}{list(found.shape)}"
            hint = ""
            if tuple(found.shape[1:]) == column.shape[1:] and found.dtype == column.dtype:
                hint = "; DataLoader(drop_last=True) leaves out what fills no batch"
            problems.append(f"{column.name} is {got}, the plan reads {wanted}{hint}")
        else:
            tensors.append(found.cpu())
    if problems:
        raise FeedError(f"{'; '.join(problems)}{place.worker()}")
    return tensors


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _name_samples() -> None:
    """Lets an error of a data set name the sample, in this process and in workers forked from it."""
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    fetch = _MapDatasetFetcher.fetch
    if getattr(fetch, "names_samples", False):
        return

    def naming(self: Any, batch: Any) -> Any:
        try:
            return fetch(self, batch)
        except Exception as error:
            for frame, _ in traceback.walk_tb(error.__traceback__):
                if (
                    frame.f_code.co_filename == fetch.__code__.co_filename
                    and "idx" in frame.f_locals
                ):
                    error.add_note(f"{NOTE}{frame.f_locals['idx']}")
                    break
            else:
                error.add_note(f"{NOTE}one of {batch}")
            raise

    naming.names_samples = True  # type: ignore[attr-defined]
    _MapDatasetFetcher.fetch = naming


def _describe(error: BaseException, iterator: Any) -> str:
    """An exception in one line, with the worker and the sample as far as they are known."""
    text = "".join(traceback.format_exception(error))
    lines = [line for line in text.splitlines() if line.strip()]
    where = re.findall(r'File "([^"]+)", line (\d+)', text)
    parts = []
    if worker := re.search(r"DataLoader worker process (\d+)", text):
        parts.append(f"worker {worker[1]}")
    elif died := re.search(r"worker \(pid(?:\(s\))? ([\d, ]+)\)", text):
        pids = [int(pid) for pid in re.findall(r"\d+", died[1])]
        workers = getattr(iterator, "_workers", [])
        numbers = [str(i) for i, worker in enumerate(workers) if worker.pid in pids]
        parts.append(f"worker {', '.join(numbers)}" if numbers else f"worker process {pids[0]}")
    if sample := re.search(re.escape(NOTE) + r"(.*)", text):
        parts.append(f"sample {sample[1]}")
    if where:
        parts.append(f"{os.path.basename(where[-1][0])}:{where[-1][1]}")
    last = [line for line in lines if not line.startswith((NOTE, " "))][-1].strip()
    return f"{last} ({', '.join(parts)})" if parts else last

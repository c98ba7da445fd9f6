"""Feeds a rank with the batches of any loader: the Python end of the ring (docs/data.md)."""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import struct
import sys
import time
import traceback
import types
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch

from ..dtypes import DTYPES, short_name
from ..errors import E, identified
from .batch_origins import asked_by, follow_loaders, iterator_in, origin_of, place_of, words_of
from .loader_epochs import FeedError, Loader, Place, batch_count, batches
from .loader_errors import describe, name_samples
from .loader_state import LoaderState, has_state, pack, unpack
from .tensor_file import as_bytes

HEADER = struct.Struct("<8s8Q2qqQQQ")
SLOT = struct.Struct("<Q4q2Q2q")
EXTENT_AT, ERROR_BYTES_AT, ANSWERS_AT = 88, 96, 112
VARIABLE = "FSDP_MLIR_RING"
# That a worker has to say where it is; the rank waits twice as long.
WORKER_ANSWERS_S = 0.5


class _RankIsGone(Exception):
    pass


class Column(NamedTuple):
    name: str
    dtype: torch.dtype
    shapes: list[tuple[int, ...]]  # that it may have; all columns have as many
    offset: int
    bytes: int  # of the largest


class Ring:
    """Slots in the memory of the rank that started this process.

    Attributes:
        rank, ranks, seed: of the run.
        columns: what a batch has, in the plan's order.
        keeps_states: whether the rank wants the loader's state behind each batch.
    """

    def __init__(self, descriptors: str) -> None:
        file, self._ready, self._freed, self._alive = map(int, descriptors.split(","))
        self._memory = mmap.mmap(file, os.fstat(file).st_size)
        header = HEADER.unpack_from(self._memory)
        magic, version, self._slots, self._slot_bytes, self._slots_begin = header[:5]
        text, text_bytes, self._error, self._error_capacity = header[5:9]
        if magic != b"FSDPRING" or version != 3:
            raise FeedError("the rank's ring is of another version; build both together")
        about = json.loads(self._memory[text : text + text_bytes])
        self.rank, self.ranks, self.seed = about["rank"], about["ranks"], about["seed"]
        self._state = about.get("state")
        self.keeps_states = self._state is not None
        dtypes = {row.name: row.dtype for row in DTYPES.values()}
        self.columns = [
            Column(
                c["name"], dtypes[c["dtype"]], [*map(tuple, c["shapes"])], c["offset"], c["bytes"]
            )
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

    def start(self) -> tuple[int, int, Optional[bytes]]:
        """The epoch and batch that the run begins with, once there is a slot, and the state that a
        loader had when it had given a batch before it."""
        header = HEADER.unpack_from(self._memory)
        begin = self._slots_begin + (self._state["offset"] if self._state else 0)
        state = self._memory[begin : begin + header[13]] if header[13] else None
        return header[9], header[10], state

    def put(
        self,
        epoch: int,
        number: int,
        tensors: Sequence[torch.Tensor],
        variant: int = 0,
        state: bytes = b"",
    ) -> None:
        """Fills the slot that was waited for. `variant`: which of the columns' shapes it has;
        `state`: the loader's, behind this batch."""
        begin = self._slots_begin + self._count % self._slots * self._slot_bytes
        nan, worker, sample = (-1, -1), -1, -1
        for i, (column, tensor) in enumerate(zip(self.columns, tensors)):
            at = begin + column.offset
            self._bytes[at : at + tensor.nbytes] = as_bytes(tensor)
            if nan == (-1, -1) and tensor.is_floating_point() and tensor.numel():
                rows = torch.isnan(tensor).flatten(1).any(1) if tensor.dim() > 1 else tensor.isnan()
                if rows.any():
                    nan = (i, int(rows.int().argmax()))
                    worker, sample = _origin(tensors, nan[1])
        if state:
            at = begin + self._state["offset"]
            if len(state) > self._state["bytes"]:
                raise FeedError(
                    f"the loader's state has {len(state)} bytes, and a checkpoint has room for "
                    f"{self._state['bytes']} of each rank"
                )
            self._memory[at : at + len(state)] = state
        self._count += 1
        numbers = (self._count, epoch, number, *nan, len(state), variant, worker, sample)
        SLOT.pack_into(self._memory, begin, *numbers)
        os.eventfd_write(self._ready, 1)

    def fail(self, message: str) -> None:
        """Leaves the rank an error, of one line."""
        text = message.encode(errors="replace")[: self._error_capacity]
        self._memory[self._error : self._error + len(text)] = text
        struct.pack_into("<Q", self._memory, ERROR_BYTES_AT, len(text))

    @property
    def has_failed(self) -> bool:
        return HEADER.unpack_from(self._memory)[12] > 0

    def answer(self) -> None:
        """Says where the loader is when the rank, which has waited long enough, asks by a signal.
        A worker that owes the batch knows better, and inherits this."""
        owner = os.getpid()

        def say(number: int, frame: Optional[types.FrameType]) -> None:
            info = torch.utils.data.get_worker_info()
            place = place_of(frame, info.id if info else None)
            if os.getpid() == owner:
                _ask_worker(frame)
                ends = time.monotonic() + WORKER_ANSWERS_S
                while not self.has_failed and time.monotonic() < ends:
                    time.sleep(0.01)
            traceback.print_stack(frame)
            if not self.has_failed:
                self.fail(place)

        signal.signal(signal.SIGUSR2, say)
        struct.pack_into("<Q", self._memory, ANSWERS_AT, owner)


def _ask_worker(frame: Optional[types.FrameType]) -> None:
    iterator = iterator_in([f for f, _ in traceback.walk_stack(frame)][::-1])
    asked = asked_by(iterator)
    origin = asked.due() if asked else None
    if asked and origin and origin.worker is not None:
        os.kill(asked.pids[origin.worker], signal.SIGUSR2)


def _origin(tensors: Sequence[torch.Tensor], row: int) -> tuple[int, int]:
    """The worker that made a batch, and the sample of a row; -1: not known."""
    origin = origin_of(tensors)
    if origin is None:
        return -1, -1
    samples = origin.samples
    known = isinstance(samples, (list, tuple)) and row < len(samples)
    sample = samples[row] if known else -1
    return -1 if origin.worker is None else origin.worker, sample if type(sample) is int else -1


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
        text = "no rank started this process; run it by fsdp-run --data-command 'COMMAND'"
        raise SystemExit(f"error: {identified(E.LOADER, text)}")
    ring = Ring(os.environ[VARIABLE])
    place = Place()
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
        ring.fail(f"{place}{describe(error, place.iterator)}")
    sys.stderr.flush()
    sys.exit(1)


def _feed(ring: Ring, place: Place, loader: Loader, names: Optional[Sequence[str]]) -> None:
    length = batch_count(loader)
    order = list(names) if names is not None else [column.name for column in ring.columns]
    name_samples()
    follow_loaders()
    ring.answer()
    ring.announce(-1 if length is None else length)
    ring.await_slot()
    epoch, batch, packed = ring.start()
    place.batch, place.epoch = batch, epoch if length is not None else None
    has_slot = True
    keeps = ring.keeps_states and has_state(loader)
    begin = unpack(packed) if packed and keeps else None
    for epoch, number, value in batches(loader, length, epoch, batch, place, begin):
        tensors, variant = _tensors(value, order, ring.columns)
        state = b""
        if keeps:
            state = pack(LoaderState.of(loader, epoch, number + 1, place.passes))
            if has_slot:
                unpack(state)  # what no run could resume from is an error now
        if not has_slot:
            ring.await_slot()
        ring.put(epoch, number, tensors, variant, state)
        has_slot = False


def _is_rest(shape: tuple[int, ...], shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether it has fewer samples than a batch that is like it otherwise."""
    return any(shape[1:] == own[1:] and shape[:1] < own[:1] for own in shapes if shape and own)


def _tensors(
    value: Any, names: Sequence[str], columns: Sequence[Column]
) -> tuple[list[torch.Tensor], int]:
    """The columns of a batch, and which of their shapes it has; raises FeedError for what the plan
    does not read."""
    if isinstance(value, Mapping):
        by_name = value
    elif isinstance(value, (tuple, list)):
        if len(value) != len(names):
            raise FeedError(
                f"it has {len(value)} members, and inputs are {', '.join(names)}; give as many, or "
                "a dict"
            )
        by_name = dict(zip(names, value))
    elif isinstance(value, (torch.Tensor, np.ndarray)):
        by_name = {names[0]: value}
    else:
        raise FeedError(
            f"it is of type {type(value).__name__}; give a dict of tensors by name, or a tuple of "
            f"{', '.join(names)}"
        )
    tensors, problems, hint = [], [], ""
    for column in columns:
        found = by_name.get(column.name)
        if isinstance(found, np.ndarray):
            found = torch.from_numpy(found)
        shapes = " or ".join(str(list(shape)) for shape in dict.fromkeys(column.shapes))
        wanted = f"{short_name(column.dtype)}{shapes}"
        if column.name not in by_name:
            problems.append(f"it has no {column.name}")
        elif not isinstance(found, torch.Tensor):
            problems.append(f"{column.name} is {type(found).__name__}, the plan reads {wanted}")
        elif found.dtype != column.dtype or tuple(found.shape) not in column.shapes:
            got = f"{short_name(found.dtype)}{list(found.shape)}"
            problems.append(f"{column.name} is {got}, the plan reads {wanted}")
            if found.dtype == column.dtype and _is_rest(tuple(found.shape), column.shapes):
                hint = "; DataLoader(drop_last=True) leaves out what fills no batch"
        else:
            tensors.append(found)
    if problems:
        raise FeedError(f"{'; '.join(problems)}{hint}{words_of(value)}")
    found = tuple(tuple(tensor.shape) for tensor in tensors)
    variants = list(zip(*(column.shapes for column in columns)))
    if found not in variants:
        parts = ", ".join(f"{c.name} {list(shape)}" for c, shape in zip(columns, found))
        raise FeedError(f"no program of the plan reads {parts} together{words_of(value)}")
    return [tensor.cpu() for tensor in tensors], variants.index(found)

"""The batches of any loader, epoch after epoch, from where a run begins."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterable, Iterator, Optional, Union

import torch
from torch.utils.data import DataLoader, IterableDataset

from .loader_state import LoaderState

Loader = Union[Iterable[Any], Callable[[], Any]]


class FeedError(Exception):
    """A batch that the plan cannot read; the message is for the user."""


class Place:
    """Where a loader is, for messages."""

    batch: Optional[int] = None
    epoch: Optional[int] = None
    passes = 0  # of a loader without a length, before the one that goes on
    iterator: Any = None

    def __str__(self) -> str:
        if self.batch is None:
            return "the loader cannot be made: "
        of = "" if self.epoch is None else f" of epoch {self.epoch}"
        return f"the loader failed at batch {self.batch}{of}: "


def batch_count(loader: Loader) -> Optional[int]:
    """Batches of an epoch, where the loader has such a number."""
    try:
        return len(loader)  # type: ignore[arg-type]
    except TypeError:
        return None


def batches(
    loader: Loader,
    length: Optional[int],
    first_epoch: int,
    first: int,
    place: Place,
    state: Optional[LoaderState],
) -> Iterator[tuple[int, int, Any]]:
    """Epoch, number and batch, from the first one on. A loader with a state goes on from it; else
    what comes before is made and left out, for random numbers to be those of a run from the
    start."""
    if length is None:
        endless = _calls(loader) if _is_function(loader) else _passes(loader, place, state)
        for number, value in enumerate(endless, state.batches if state else 0):
            if number >= first:
                yield 0, number, value
            place.batch = max(first, number + 1)
        return
    for epoch in itertools.count(state.epoch if state else _replayed(loader, first_epoch)):
        begin = first if epoch == first_epoch else 0
        _set_epoch(loader, epoch)
        place.iterator, place.epoch, place.batch = None, max(epoch, first_epoch), begin
        place.iterator = iterator = _iterator(loader, state)
        count = state.batches if state else 0
        state = None
        for count, value in enumerate(iterator, count + 1):
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


def _iterator(loader: Any, state: Optional[LoaderState]) -> Iterator[Any]:
    if state is None:
        return iter(loader)
    loader.load_state_dict(state.loader)
    iterator = iter(loader)  # may draw a random number
    state.set_generators()
    return iterator


def _passes(loader: Loader, place: Place, state: Optional[LoaderState]) -> Iterator[Any]:
    for place.passes in itertools.count(state.passes if state else 0):
        _set_epoch(loader, place.passes)
        place.iterator = iterator = _iterator(loader, state)
        empty, state = state is None, None
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

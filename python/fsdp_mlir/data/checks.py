"""What `TrainingStep` takes as data, and whether it fits the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, NamedTuple, Optional, Sequence, Union

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from ..dtypes import short_name
from .files import FileData, converts
from ..errors import E, ExportError, note, warn
from .loader_epochs import Loader, batch_count


@dataclass
class LoaderData:
    """Batches that a process beside each rank makes: they are seen when they come.

    Attributes:
        loader: what `feed` takes.
        names: of all inputs, in their order.
    """

    loader: Loader
    names: list[str]


Data = Union[Mapping[str, torch.Tensor], FileData, LoaderData]


class Samples(NamedTuple):
    """What an input reads of data."""

    dtype: torch.dtype
    shape: tuple[int, ...]  # of one
    count: int


def column_names(data: Data) -> list[str]:
    """The inputs that come from data."""
    if isinstance(data, LoaderData):
        return data.names
    return list(data.columns if isinstance(data, FileData) else data)


def batches_per_epoch(data: Data, sizes: Sequence[int], ranks: int) -> Optional[int]:
    """Of each rank; None where there is no such number. The first of `sizes` is a batch's; what
    fills none is one where it has another of these sizes. A loader is one rank's own."""
    if isinstance(data, LoaderData):
        return batch_count(data.loader)
    count = len(data) if isinstance(data, FileData) else next(iter(data.values())).shape[0]
    each, rest = divmod(count // ranks, sizes[0])
    return each + (rest in sizes[1:])


def _samples(what: str, data: Union[Mapping[str, torch.Tensor], FileData]) -> dict[str, Samples]:
    if isinstance(data, FileData):
        return {
            name: Samples(column.dtype, column.sample, len(data))
            for name, column in data.columns.items()
        }
    for name, tensor in data.items():
        if tensor.dim() == 0:
            raise ExportError(E.DATA_MISMATCH, _no_samples(what, name))
    return {
        name: Samples(tensor.dtype, tuple(tensor.shape[1:]), tensor.shape[0])
        for name, tensor in data.items()
    }


def _no_samples(what: str, name: str) -> str:
    return (
        f"{what}[{name!r}] has no dimension 0 to hold samples; leave it out of {what} and it is a "
        "constant"
    )


def check_data(what: str, data: Data, inputs: Mapping[str, torch.Tensor]) -> None:
    """Raises ExportError where batches of `data` have not the dtypes and shapes of `inputs`."""
    unknown = sorted(set(column_names(data)) - set(inputs))
    if unknown:
        raise ExportError(
            E.STEP_INPUTS,
            f"{what} names {', '.join(unknown)}, which inputs does not; inputs are "
            f"{', '.join(inputs)}",
        )
    if not column_names(data):
        raise ExportError(
            E.STEP_INPUTS, f"{what} is empty; name the inputs that change from step to step"
        )
    if isinstance(data, LoaderData):
        for name, example in inputs.items():
            if example.dim() == 0:
                raise ExportError(
                    E.STEP_INPUTS,
                    f"inputs[{name!r}] has no dimension 0 to hold the samples that {what} gives",
                )
        return
    counts: dict[int, str] = {}
    batches: dict[int, str] = {}
    for name, samples in _samples(what, data).items():
        example = inputs[name]
        if example.dim() == 0:
            raise ExportError(E.DATA_MISMATCH, _no_samples(what, name))
        fits = samples.dtype == example.dtype
        if isinstance(data, FileData):
            fits = converts(samples.dtype, example.dtype)
        if not fits:
            raise ExportError(
                E.DATA_MISMATCH,
                f"{what}[{name!r}] is {short_name(samples.dtype)} but inputs[{name!r}] is "
                f"{short_name(example.dtype)}; convert one of them",
            )
        if samples.shape != example.shape[1:]:
            raise ExportError(
                E.DATA_MISMATCH,
                f"{what}[{name!r}] has samples of shape {list(samples.shape)} but "
                f"inputs[{name!r}] of shape {list(example.shape[1:])}",
            )
        counts.setdefault(samples.count, name)
        batches.setdefault(example.shape[0], name)
    if len(batches) > 1:
        sizes = ", ".join(f"{name} {size}" for size, name in batches.items())
        raise ExportError(
            E.STEP_INPUTS, f"inputs differ in batch size ({sizes}); dimension 0 is the local batch"
        )
    if len(counts) > 1:
        sizes = ", ".join(f"{name} {size}" for size, name in counts.items())
        raise ExportError(
            E.DATA_MISMATCH,
            f"{what} differs in number of samples ({sizes}); dimension 0 is the sample",
        )
    (count,), (batch,) = counts, batches
    if batch == 0:
        raise ExportError(
            E.STEP_INPUTS,
            f"inputs have no sample (dimension 0 of {batches[batch]} is 0); give a batch of the size "
            "that a rank trains with",
        )
    if count < batch:
        raise ExportError(
            E.TOO_FEW_SAMPLES,
            f"{what} has {count} samples, fewer than one batch of {batch}; give more samples or "
            "smaller inputs",
        )


def check_same_columns(data: Data, eval_data: Data) -> None:
    """Raises ExportError where an evaluation would lack what steps read of data."""
    missing = [name for name in column_names(data) if name not in column_names(eval_data)]
    if missing:
        raise ExportError(
            E.DATA_MISMATCH,
            f"eval_data has no {', '.join(missing)}, which data has; give both the same inputs",
        )


def warn_of_loader(
    what: str, data: Optional[Data], batches: Sequence[Mapping[str, torch.Tensor]], ranks: int
) -> None:
    """Says what a DataLoader of PyTorch's own parts does late in a run, or without a word."""
    loader = data.loader if isinstance(data, LoaderData) else None
    if type(loader) is not DataLoader or type(loader.batch_sampler) is not BatchSampler:
        return
    count = len(loader.sampler)
    rest = 0 if loader.drop_last else count % loader.batch_sampler.batch_size
    known = [tensor.shape[0] for batch in batches for tensor in batch.values()]
    if rest and rest not in known and loader.collate_fn is default_collate:
        warn(
            f"an epoch of {what} ends with a batch of {rest} sample{'' if rest == 1 else 's'}, which no batch of inputs has, "
            "and the run ends there with an error; give the DataLoader drop_last=True, or inputs a "
            "list with such a batch"
        )
    alike = type(loader.sampler) in (RandomSampler, SequentialSampler)
    if ranks > 1 and what == "data" and alike and count == len(loader.dataset):
        note(
            f"each of the {ranks} ranks reads all {count} samples of the data set; unless that is "
            "this rank's own part, give the DataLoader a DistributedSampler"
        )

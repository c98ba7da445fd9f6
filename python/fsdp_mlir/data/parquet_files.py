"""`Parquet`: batches from Parquet files, which the loader's processes read by row groups."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Union

import numpy as np
import torch

from .arrow_files import pyarrow, row_major
from .files import Paths, listed
from ..errors import E, ExportError
from ..options import checked_options
from ..untrusted import open_regular

ORDERS = ("blocks", "sequential")


class _Group(NamedTuple):
    path: str
    number: int
    rows: int


class Parquet:
    """Batches of samples in Parquet files, for `data` of a TrainingStep or a loop of one's own:
    `Parquet("folder", batch=32, columns={"x": "input_ids"}, dtype=torch.int64)`.

    An iterable of dicts of tensors; each pass gives this rank's batches of an epoch. Ranks take
    turns, sample by sample, and what fills no batch of all ranks is left out. A row group is in
    memory at a time, and each rank reads all of them.

    Args:
        files: a file, a folder of `.parquet` files, a pattern or a list.
        batch: samples of one rank.
        columns: by input name the column of the files (all columns, under their own names).
        dtype: of the tensors, one for all or by input name (as stored).
        order: `"blocks"`: row groups are shuffled, and the rows of each, as `blocks` of `Shards`;
            `"sequential"`: as stored.
        seed: of the order, which is another one in each epoch.
        rank: this one (`RANK` of the environment, or 0).
        ranks: how many there are (`WORLD_SIZE`, or 1).

    Raises:
        ExportError: pyarrow is missing, the files cannot be read, or the arguments do not fit them.
    """

    @checked_options
    def __init__(
        self,
        files: Paths,
        batch: int,
        columns: Optional[Mapping[str, str]] = None,
        dtype: Union[torch.dtype, Mapping[str, torch.dtype], None] = None,
        order: str = "blocks",
        seed: int = 0,
        rank: Optional[int] = None,
        ranks: Optional[int] = None,
    ) -> None:
        if order not in ORDERS:
            raise ExportError(
                E.STEP_ARGUMENT, f"Parquet: order is {order!r}; give one of {', '.join(ORDERS)}"
            )
        self.batch, self.order, self.seed, self.dtype = batch, order, seed, dtype
        self.rank = int(os.environ.get("RANK", 0)) if rank is None else rank
        self.ranks = int(os.environ.get("WORLD_SIZE", 1)) if ranks is None else ranks
        self._groups: list[_Group] = []
        names: list[str] = []
        for path in listed(files, (".parquet",)):
            metadata = _opened(path).metadata
            names = names or metadata.schema.to_arrow_schema().names
            self._groups += [
                _Group(str(path), i, metadata.row_group(i).num_rows)
                for i in range(metadata.num_row_groups)
            ]
        self.columns = dict(columns) if columns is not None else {name: name for name in names}
        for column in self.columns.values():
            if column not in names:
                raise ExportError(
                    E.DATA_MISSING,
                    f"Parquet: there is no column {column}; files have {', '.join(names)}",
                )
        self._epoch = 0
        self._begin = 0  # batches of the next pass that are left out
        self._given = 0

    @property
    def samples(self) -> int:
        return sum(group.rows for group in self._groups)

    def __len__(self) -> int:
        """Batches of one rank in an epoch."""
        return self.samples // (self.batch * self.ranks)

    def set_epoch(self, epoch: int) -> None:
        self._epoch, self._begin = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """The place after the batch that was given last."""
        return {"epoch": self._epoch, "batches": self._given}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Lets the next pass begin after that batch, without reading the row groups before it."""
        self._epoch, self._begin = state["epoch"], state["batches"]

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        self._given, self._begin = self._begin, 0
        held: list[dict[str, torch.Tensor]] = []
        count = 0
        for rows in self._rows(self._given * self.batch * self.ranks):
            held.append(rows)
            count += len(next(iter(rows.values())))
            if count < self.batch:
                continue
            joined = {name: torch.cat([part[name] for part in held]) for name in rows}
            whole = count // self.batch * self.batch
            for begin in range(0, whole, self.batch):
                if self._given == len(self):
                    return
                self._given += 1
                yield {name: t[begin : begin + self.batch] for name, t in joined.items()}
            held = [{name: tensor[whole:] for name, tensor in joined.items()}]
            count -= whole

    def _rows(self, begin: int) -> Iterator[dict[str, torch.Tensor]]:
        """This rank's samples from place `begin` of the epoch on, of one row group at a time."""
        place = 0
        for group, rows in self._order():
            first = max(begin - place, 0)
            first += (self.rank - place - first) % self.ranks
            place += group.rows
            if first >= group.rows:
                continue
            mine = rows[first :: self.ranks]
            yield {name: tensor[mine] for name, tensor in self._read(group).items()}

    def _order(self) -> Iterator[tuple[_Group, torch.Tensor]]:
        """Row groups of an epoch, and the order of their rows (docs/data.md)."""
        if self.order == "sequential":
            for group in self._groups:
                yield group, torch.arange(group.rows)
            return
        generator = torch.Generator().manual_seed(self.seed + self._epoch)
        numbers = torch.randperm(len(self._groups), generator=generator).tolist()
        seeds = torch.randint(2**31, (len(self._groups),), generator=generator).tolist()
        for number, seed in zip(numbers, seeds):
            group = self._groups[number]
            own = torch.Generator().manual_seed(seed)
            yield group, torch.randperm(group.rows, generator=own)

    def _read(self, group: _Group) -> dict[str, torch.Tensor]:
        table = _opened(group.path).read_row_group(group.number, list(self.columns.values()))
        tensors = {}
        for name, column in self.columns.items():
            what = f"column {column} of {group.path}"
            array, shape = row_major(table.column(column).combine_chunks(), what)
            tensor = torch.from_numpy(np.array(array)).reshape(shape)
            wanted = self.dtype.get(name) if isinstance(self.dtype, Mapping) else self.dtype
            tensors[name] = tensor if wanted is None else tensor.to(wanted)
        return tensors


def _opened(path: Union[str, Path]) -> Any:
    pa = pyarrow()
    from pyarrow.parquet import ParquetFile

    try:
        open_regular(path).close()
        return ParquetFile(path)
    except OSError as error:
        raise ExportError(E.DATA_FILE, f"{path}: {error.strerror or error}") from error
    except pa.ArrowInvalid as error:
        raise ExportError(E.DATA_FILE, f"{path} is no Parquet file; write it again") from error

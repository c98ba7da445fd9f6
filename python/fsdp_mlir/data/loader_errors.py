"""What a loader raises, with the worker and the sample that it came from."""

from __future__ import annotations

import os
import re
import traceback
from typing import Any

from .batch_origins import asked_by, asked_of, iterator_in

NOTE = "fsdp_mlir: sample "


def name_samples() -> None:
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


def describe(error: BaseException, iterator: Any = None) -> str:
    """An exception in one line, with the worker and the sample as far as they are known.
    `iterator`: the DataLoader's, where it is not among the exception's frames."""
    text = "".join(traceback.format_exception(error))
    lines = [line for line in text.splitlines() if line.strip()]
    where = re.findall(r'File "([^"]+)", line (\d+)', text)
    if iterator is None:
        iterator = iterator_in(frame for frame, _ in traceback.walk_tb(error.__traceback__))
    asked = asked_by(iterator)
    parts = []
    if worker := re.search(r"DataLoader worker process (\d+)", text):
        parts.append(f"worker {worker[1]}")
    elif died := re.search(r"worker \(pid(?:\(s\))? ([\d, ]+)\)", text):
        parts += _of_dead([int(pid) for pid in re.findall(r"\d+", died[1])])
    elif "DataLoader timed out" in text and asked and (origin := asked.due()):
        parts.append(str(origin))
    if sample := re.search(re.escape(NOTE) + r"(.*)", text):
        parts.append(f"sample {sample[1]}")
    if where:
        parts.append(f"{os.path.basename(where[-1][0])}:{where[-1][1]}")
    last = [line for line in lines if not line.startswith((NOTE, " "))][-1].strip()
    return f"{last} ({', '.join(parts)})" if parts else last


def _of_dead(pids: list[int]) -> list[str]:
    """The numbers of workers that are gone, and the samples that each of them had to load. The
    signal of a worker's death raises wherever the program is, so that the loader's iterator may be
    in no frame of the exception, or gone as well."""
    asked = asked_of(pids)
    numbers = [i for i, pid in enumerate(asked.pids) if pid in pids] if asked else []
    found = [str((asked and asked.due(number)) or f"worker {number}") for number in numbers]
    return found or [f"worker process {pids[0]}"]

"""The rows of a run's metrics as they are written, and those who follow them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Iterable, Iterator, Optional, Protocol


class Follower(Protocol):
    """Gets a run's metrics row by row, and is told of its end."""

    def update(self, row: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


def feed(
    followers: list[Follower],
    rows: Iterable[dict[str, Any]],
    before: list[dict[str, Any]],
    shown: Follower,
) -> None:
    """Gives a run's rows to its followers as they come, and closes these at its end. `shown`, the
    terminal, gets no rows that were there `before` the run: who reads it has seen them."""
    kept = iter(before)
    try:
        for row in rows:
            is_old = row == next(kept, None)
            if not is_old:
                kept = iter(())
            for follower in followers:
                if follower is not shown or not is_old:
                    follower.update(row)
    finally:
        for follower in followers:
            follower.close()


def follow(path: Path, running: Any) -> Iterator[dict[str, Any]]:
    """The rows of a metrics file while it is written, until `running()` is false and the file has
    ended. A line that is not JSON is left out. A run that resumes writes the file anew, without the
    rows of steps that it takes again. Rows that are there unchanged are not given twice."""
    given: list[int] = []  # the hash of each line
    file_number, position, line_number, rest = None, 0, 0, b""
    while True:
        last = not running()
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != file_number or status.st_size < position:
                    file_number, position, line_number, rest = status.st_ino, 0, 0, b""
                file.seek(position)
                written = file.read()
                position = file.tell()
        except OSError:
            written = b""
        # What was read may end within a line, or within a character.
        *lines, rest = (rest + written).split(b"\n")
        for line in lines:
            known = given[line_number : line_number + 1] == [hash(line)]
            if not known:
                given[line_number:] = [hash(line)]
            line_number += 1
            if not known and (row := _row_of(line)) is not None:
                yield row
        if last:
            return
        if not lines:
            time.sleep(0.1)


def _row_of(line: bytes) -> Optional[dict[str, Any]]:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None

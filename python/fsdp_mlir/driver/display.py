"""What the driver shows: text for people, or a JSON object per line for programs."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Mapping, Optional, TextIO

from .progress import Length, Progress, Stages


class TextDisplay(Stages):
    """Lines for people, and a bar on a terminal."""

    def tell(self, said: str) -> None:
        """What a stage had to say, below its line."""
        for line in said.splitlines():
            self._write(f"         {line}\n")

    def run(self, ranks: int, length: Length, perplexity: bool, each_row: bool) -> Progress:
        """A run begins. With `each_row` every logged step has a line off a terminal."""
        self._write(f"run      {describe(ranks, length)}\n")
        # The bar is drawn when it is made: below the line above.
        return Progress(length, perplexity, each_row=each_row)

    def wrote(self, out: Path, files: Mapping[str, Path]) -> None:
        """A line for each, so that a path can be taken whole."""
        width = max(map(len, files))
        self.tell("\n".join(f"{what:<{width}}  {path}" for what, path in files.items()))


class JsonDisplay:
    """An object per line, with what it is in `event` (docs/metrics.md)."""

    def __init__(self, out: Optional[TextIO] = None) -> None:
        self._out = out or sys.stdout
        self._started = 0.0
        self.rows: list[dict[str, Any]] = []

    def begin(self, name: str) -> None:
        self._started = time.monotonic()

    def end(self, name: str, what: str, cached: bool = False) -> None:
        seconds = round(time.monotonic() - self._started, 3)
        self._say("stage", dict(stage=name, what=what, seconds=seconds, unchanged=cached))

    def tell(self, said: str) -> None:
        for line in said.splitlines():
            self._say("note", {"text": line})

    def run(self, ranks: int, length: Length, perplexity: bool, each_row: bool) -> JsonDisplay:
        self._say("run", dict(ranks=ranks, steps=length.steps, epochs=length.epochs))
        return self

    def update(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        self._say("evaluation" if "eval_loss" in row and "loss" not in row else "step", row)

    def close(self) -> None:
        pass

    def wrote(self, out: Path, files: Mapping[str, Path]) -> None:
        paths = {what: str(path) for what, path in files.items()}
        self._say("files", {"out": str(out), **paths})

    def _say(self, event: str, facts: Mapping[str, Any]) -> None:
        print(json.dumps({**facts, "event": event}), file=self._out, flush=True)


def describe(ranks: int, length: Length) -> str:
    counts = ((ranks, "rank"), (length.epochs, "epoch"), (length.steps, "step"))
    return ", ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts if n)

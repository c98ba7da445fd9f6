"""What a user sees of a run: a line per stage, a bar, a line per epoch."""

from __future__ import annotations

import math
import sys
import time
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, TextIO

from ..step.line_fields import STANDARD
from ..untrusted import MOST_HEADER_BYTES, open_regular, parse_json


class Stages:
    """A line per stage with its time: on a terminal it is there from the start."""

    def __init__(self, out: Optional[TextIO] = None) -> None:
        self._out = out or sys.stdout
        self._terminal = self._out.isatty()
        self._started = 0.0

    def begin(self, name: str) -> None:
        self._started = time.monotonic()
        if self._terminal:
            self._write(f"{name:<8} ...\r")

    def end(self, name: str, what: str, cached: bool = False) -> None:
        seconds = time.monotonic() - self._started
        note = "  (unchanged)" if cached else ""
        self._write(f"{name:<8} {what:<44} {seconds:6.1f} s{note}\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


@dataclass
class Length:
    """How long a run is; None where it is not known beforehand."""

    steps: Optional[int] = None
    epochs: Optional[int] = None
    steps_per_epoch: Optional[int] = None


def archive_metadata(archive: Path) -> dict[str, Any]:
    """`fsdp.json` of an archive (docs/archive.md). For display only: the import
    is what checks it. Empty where there is none."""
    try:
        with open_regular(archive) as file, zipfile.ZipFile(file) as records:
            for name in records.namelist():
                if name.endswith("/extra/fsdp.json"):
                    found = parse_json(records.read(name))
                    return found if isinstance(found, dict) else {}
    # What zipfile raises for one that is damaged or has another's features.
    except (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error):
        pass
    return {}


def columns_of(data: Path) -> dict[str, int]:
    """The samples of each column of a description of files (`.json`), or dimension 0 of each
    tensor of a safetensors file, read from its header. Empty where it is neither."""
    try:
        with open_regular(data) as file:
            if data.suffix == ".json":
                described = parse_json(file.read())
                return {column["name"]: described["samples"] for column in described["columns"]}
            length = int.from_bytes(file.read(8), "little")
            header = parse_json(file.read(min(length, MOST_HEADER_BYTES)))
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        return {name: entry["shape"][0] for name, entry in tensors.items() if entry["shape"]}
    except (OSError, ValueError, AttributeError, LookupError, TypeError):
        return {}


def sample_count(data: Path) -> Optional[int]:
    """The number of samples of a data set, by its first column; None where that is not known."""
    return next(iter(columns_of(data).values()), None)


def data_beside(archive: Path, kind: str = "data") -> Optional[Path]:
    """The file that export wrote as `data` or `eval`: tensors, or a description of files."""
    for suffix in ("safetensors", "json"):
        if (path := archive.with_suffix(f".{kind}.{suffix}")).exists():
            return path
    return None


def batch_of(metadata: dict[str, Any]) -> Optional[int]:
    """The samples of a rank's first batch; None where the step reads no data."""
    of_data = (i for i in metadata.get("inputs", []) if i.get("source") == "data")
    return next((i["shape"][0] for i in of_data), None)


def steps_of_epoch(metadata: dict[str, Any], samples: Optional[int], ranks: int) -> Optional[int]:
    """The number of steps in an epoch, as the runtime counts them; None where that is not known."""
    batch = batch_of(metadata)
    if samples is None or not batch:
        return None
    each, rest = divmod(samples // ranks, batch)
    last = rest in _other_batches(metadata)
    return (each + last) // metadata.get("accumulate", 1)


def length_of(
    metadata: dict[str, Any],
    samples: Optional[int],
    ranks: int,
    steps: Optional[int] = None,
    epochs: Optional[int] = None,
    then: Mapping[str, int] = {},
) -> Length:
    """The length of a run on `ranks` ranks, which goes on from `then` (`run` of a checkpoint's
    manifest); `steps` or `epochs` override the step file's own. Batches are the runtime's: what
    does not fill a batch on every rank is left out."""
    if steps is None and epochs is None:
        default = metadata.get("length") or {}
        steps, epochs = default.get("steps"), default.get("epochs")
    per_epoch = steps_of_epoch(metadata, samples, ranks) or None
    if steps is None and epochs is not None and per_epoch is not None:
        steps = epochs * per_epoch
        if then:
            steps = max(0, steps - _ahead(metadata, ranks, per_epoch, then))
    return Length(steps, epochs, per_epoch)


def _ahead(metadata: dict[str, Any], ranks: int, per_epoch: int, then: Mapping[str, int]) -> int:
    """How many more steps of these ranks the data are that a run has read than it took, on
    others."""
    each = (batch_of(metadata) or 1) * metadata.get("accumulate", 1) * ranks
    read = then["epoch"] * per_epoch + math.ceil(then["samples_in_epoch"] / each)
    return read - then["step"]


def _other_batches(metadata: dict[str, Any]) -> list[int]:
    """The sizes of batches, besides the first, that the step has programs for."""
    sizes = []
    named = {i["name"] for i in metadata.get("inputs", []) if i.get("source") == "data"}
    for program in metadata.get("programs", {}).values():
        if program.get("variant_of") == "step":
            inputs = [a for a in program["arguments"] if a["role"] == "input" and a["fqn"] in named]
            sizes.append(program["values"][inputs[0]["name"]]["shape"][0])
    return sizes


@dataclass
class Epoch:
    """The mean of what an epoch's steps logged, and its evaluation."""

    number: int
    losses: list[float] = field(default_factory=list)
    metrics: dict[str, list[float]] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    rates: list[tuple[float, float]] = field(default_factory=list)
    eval_loss: Optional[float] = None

    def add(self, row: dict[str, Any]) -> None:
        # A loss that is not finite is null.
        if row.get("loss") is not None:
            self.losses.append(row["loss"])
            self.last = row
            rate = row.get("tokens_per_s") or row.get("samples_per_s")
            if rate:
                self.rates.append((rate, row.get("step_ms") or 1.0))
        if row.get("eval_loss") is not None:
            self.eval_loss = row["eval_loss"]
        for name, value in row.items():
            if name not in STANDARD and isinstance(value, (int, float)):
                self.metrics.setdefault(name, []).append(value)

    def line(self, epochs: Optional[int], perplexity: bool) -> str:
        parts = [f"epoch {self.number}" + (f"/{epochs}" if epochs else "")]
        if self.losses:
            parts.append(f"loss {mean(self.losses):.4f}")
        # What was evaluated is a figure of its own, what was logged a mean.
        for name, values in self.metrics.items():
            value = values[-1] if name.startswith("eval_") else mean(values)
            parts.append(f"{name} {value:.4f}")
        if self.eval_loss is not None:
            parts.append(f"eval_loss {self.eval_loss:.4f}")
            if perplexity:
                parts.append(f"perplexity {perplexity_of(self.eval_loss)}")
        if self.rates:
            unit = "tokens" if self.last.get("tokens_per_s") else "samples"
            # Weighted by time: all that was done over all the time it took.
            rate = sum(r * ms for r, ms in self.rates) / sum(ms for _, ms in self.rates)
            parts.append(f"{rate:,.0f} {unit}/s")
        return "  ".join(parts)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def perplexity_of(loss: float) -> str:
    return f"{math.exp(loss):.1f}" if loss < 700 else "inf"


# Off a terminal, where there is no bar, a run is heard of so often at least.
QUIET_S = 30.0


class Progress:
    """Follows a run by its metrics: a bar on a terminal, a line for each epoch.

    A run whose length is in steps has a line each tenth of it instead. Off a terminal steps have
    lines between them, so that none comes more than 30 s and a step after another, or, with
    `each_row`, each of them. `clock` gives seconds.
    """

    def __init__(
        self,
        length: Length,
        perplexity: bool = False,
        out: Optional[TextIO] = None,
        clock: Callable[[], float] = time.monotonic,
        each_row: bool = False,
    ) -> None:
        self._each_row = each_row
        self._clock = clock
        self._last_line = clock()
        self.rows: list[dict[str, Any]] = []
        self._length = length
        self._perplexity = perplexity
        self._out = out = out or sys.stdout
        self._epoch: Optional[Epoch] = None
        self._bar = None
        if out.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=length.steps, unit="step", file=out, leave=False)

    def update(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        number = self._interval(row)
        if self._epoch is None:
            self._epoch = Epoch(number)
        elif number != self._epoch.number and row.get("loss") is not None:
            self._finish_epoch()
            self._epoch = Epoch(number)
        self._epoch.add(row)
        if self._bar is not None and row.get("loss") is not None:
            self._bar.set_description(f"epoch {number}" if self._by_epoch else "steps", False)
            self._bar.set_postfix_str(", ".join(of_step(row)), False)
            self._bar.update(row.get("step", self._bar.n + 1) - self._bar.n)
        elif self._bar is None and (self._each_row or self._clock() - self._last_line >= QUIET_S):
            self._line("  ".join([self._place(row), *of_step(row)]))

    def close(self) -> None:
        self._finish_epoch()
        if self._bar is not None:
            self._bar.close()

    def _place(self, row: dict[str, Any]) -> str:
        steps = f"/{self._length.steps}" if self._length.steps else ""
        return f"step {row.get('step')}{steps}"

    def _line(self, text: str) -> None:
        self._last_line = self._clock()
        if self._bar is not None:
            self._bar.write(text, file=self._out)
        else:
            print(text, file=self._out, flush=True)

    @property
    def _by_epoch(self) -> bool:
        return self._length.steps_per_epoch is not None or self._length.epochs is not None

    def _interval(self, row: dict[str, Any]) -> int:
        # A run that goes on from other ranks, or another batch, began with epochs of another length.
        if self._by_epoch and "epoch" in row:
            return int(row["epoch"])
        step = max(1, int(row.get("step", 1)))
        if self._length.steps_per_epoch is not None:
            return (step - 1) // self._length.steps_per_epoch + 1
        return (step - 1) // max(1, (self._length.steps or 100) // 10) + 1

    def _finish_epoch(self) -> None:
        if self._epoch is None or not self._epoch.losses:
            return
        line = self._epoch.line(self._length.epochs, self._perplexity)
        if not self._by_epoch:
            line = f"step {self._epoch.last.get('step')}" + line[line.index("  ") :]
        self._epoch = None
        self._line(line)


def of_step(row: dict[str, Any]) -> list[str]:
    """A step's loss, learning rate and throughput, as far as its row has them."""
    parts = []
    if row.get("loss") is not None:
        parts.append(f"loss {row['loss']:.4f}")
    if isinstance(row.get("lr"), (int, float)):
        parts.append(f"lr {row['lr']:.2e}")
    for key in ("tokens_per_s", "samples_per_s"):
        if row.get(key):
            parts.append(f"{row[key]:,.0f} {key.split('_')[0]}/s")
            break
    return parts

"""Which units `units=auto` finds in the models of the zoo.

python test/numerics/zoo/units.py                     all of them, writes units.csv; some minutes
python test/numerics/zoo/units.py --only gpt vit      of names with one of these, and prints them
"""

from __future__ import annotations

import argparse
import collections
import csv
import json
import os
import pathlib
import re
import sys
import tempfile
import warnings
from typing import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parents[2] / "python")]

from fsdp_mlir import TrainingStep  # noqa: E402
from fsdp_mlir.archive.step_facts import describe_modules  # noqa: E402
from fsdp_mlir.step.names import StateNames  # noqa: E402
from support import chain  # noqa: E402
from zoo_step import MODELS, training_step  # noqa: E402

TABLE = HERE / "units.csv"
COLUMNS = ("model", "units", "largest", "root", "paths")
Row = tuple[str, ...]


def row_of(model: str) -> Row:
    """How many units the model has beside the root, which share of the parameters' elements the
    largest of them and the root have, and the units' paths, with a star for each number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = training_step([f"--model={model}"])
        names = StateNames(step)
    sizes = {fqn: tensor.numel() for fqn, tensor in names.parameters.items()}
    units = collections.Counter({"": 0})
    for fqn, unit in _owners("\n".join(_module(step, names))):
        units[unit] += sizes[fqn]
    root = units.pop("")
    largest = max(units.values(), default=0)
    shares = (f"{size / max(sum(sizes.values()), 1):.0%}" for size in (largest, root))
    paths = collections.Counter(
        re.sub(r"(?<![A-Za-z\d])\d+(?![A-Za-z\d])", "*", path) for path in units
    )
    counted = (f"{path} x{count}" if count > 1 else path for path, count in paths.items())
    return model, str(len(units)), *shares, ", ".join(counted)


def _module(step: TrainingStep, names: StateNames) -> Iterator[str]:
    """The model's modules and parameters in IR, beside a step that reads none."""
    for module in describe_modules(step, names):
        container = "container" if module["container"] else ""
        aliases = f"aliases {json.dumps(module['aliases'])}" if module["aliases"] else ""
        yield f'fsdp.module "{module["path"]}" class "{module["class"]}" {container} {aliases}'
    for fqn, tensor in names.parameters.items():
        type_ = "x".join(map(str, (*tensor.shape, "f32")))
        aliases = f"{{aliases = {json.dumps(names.aliases[fqn])}}}" if names.aliases[fqn] else ""
        yield f'fsdp.state @"{fqn}" parameter : tensor<{type_}> {aliases}'
    yield "func.func @step() { return }"


def _owners(module: str) -> list[tuple[str, str]]:
    """Each parameter with its unit."""
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(module)
        file.flush()
        opt = [chain.binary("fsdp-opt"), file.name, "--fsdp-assign-units=units=auto"]
        text = chain.command(opt).stdout
    return re.findall(r'fsdp\.state @"?([^" ]+)"? parameter .*\bunit = "([^"]*)"', text)


def read_table() -> dict[str, Row]:
    with TABLE.open(newline="") as file:
        return {row[0]: tuple(row) for row in list(csv.reader(file))[1:]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="models whose name contains one of these")
    parser.add_argument("--output", type=pathlib.Path, help="table to write")
    flags = parser.parse_args()
    chosen = flags.only or [""]
    names = sorted(name for name in MODELS if any(part in name for part in chosen))
    rows = [row_of(name) for name in names]
    if flags.only:
        print(*map("  ".join, rows), sep="\n")
    if flags.output or not flags.only:
        with (flags.output or TABLE).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()

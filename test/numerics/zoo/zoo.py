"""Trains the zoo: models of libraries and scripts, each through the whole chain.

python test/numerics/zoo/zoo.py                      all of them, writes results.csv
python test/numerics/zoo/zoo.py --dozen --compare    a dozen, against results.csv
python test/numerics/zoo/zoo.py --only nn/lstm --keep out/
python test/numerics/zoo/zoo.py --status close --update    those that are close in results.csv, into it
"""

from __future__ import annotations

import argparse
import csv
import functools
import os
import pathlib
import sys
import tempfile
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parents[2] / "python")]

import torch  # noqa: E402

from check import STEP_FILE, check  # noqa: E402
from support import chain, outcomes  # noqa: E402
from support.outcomes import CLOSE, PASSED, REFUSED, WRONG, Outcome  # noqa: E402
from zoo_step import MODELS  # noqa: E402

RESULTS = HERE / "results.csv"
COLUMNS = ["model", "status", "stage", "reason", "operator"]
TIMEOUT_S = 600
# One of each kind, and quick.
DOZEN = """
scripts/nanogpt
scripts/word-lstm
scripts/vae
strange/moco
selections/experts-at-most
nn/attention-dropout
nn/lstm-packed
nn/ctc
transformers/causal/deepseek_v3
transformers/masked/bert
torchvision/vit_b_16
timm/MlpMixer
""".split()


def read_table() -> dict[str, Outcome]:
    with RESULTS.open(newline="") as file:
        return {
            row["model"]: Outcome(*(row[column] for column in COLUMNS[1:]))
            for row in csv.DictReader(file)
        }


def write_table(results: dict[str, Outcome], path: pathlib.Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, outcome in sorted(results.items()):
            writer.writerow([name, *(getattr(outcome, column) for column in COLUMNS[1:])])


def warm_up(folder: pathlib.Path) -> None:
    """Imports what the first export imports, in the process that is forked."""
    # Autograd's first run, before a capture: it would then start threads, which no fork has.
    torch.ones(1, requires_grad=True).sum().backward()
    try:
        chain.export(STEP_FILE, folder / "warm-up.pt", ["--model=transformers/causal/llama"])
        for name in ("timm/MlpMixer", "torchvision/mobilenet_v2"):
            MODELS[name]()
    except Exception:
        # The same failure shows again in the model's own case.
        traceback.print_exc()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dozen", action="store_true", help="a dozen, on one rank and on two")
    parser.add_argument("--only", nargs="*", help="models whose name contains one of these")
    parser.add_argument("--status", help="models of which results.csv says this")
    parser.add_argument("--compare", action="store_true", help="with results.csv")
    parser.add_argument("--update", action="store_true", help="write their rows into results.csv")
    parser.add_argument("--jobs", "-j", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="folder to leave files in")
    parser.add_argument("--output", type=pathlib.Path, help="table to write")
    parser.add_argument("--verbose", "-v", action="store_true")
    flags = parser.parse_args()

    names = DOZEN if flags.dozen else list(MODELS)
    if flags.only:
        names = [name for name in names if any(part in name for part in flags.only)]
    if flags.status:
        table = read_table()
        names = [name for name in names if name in table and table[name].status == flags.status]
    whole = not flags.dozen and not flags.only and not flags.status
    worlds = (1, 2) if flags.dozen else (2,)
    checked = functools.partial(check, worlds=worlds, naming=not flags.compare)
    with tempfile.TemporaryDirectory(prefix="fsdp-zoo-") as temporary:
        folder = flags.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if len(names) > 3:
            warm_up(folder)
        results = outcomes.run(
            names, checked, str, folder, flags.jobs, TIMEOUT_S, flags.verbose, flags.keep is None
        )
    print(outcomes.summary(results, (PASSED, CLOSE, REFUSED, WRONG)))
    wrong = [name for name, outcome in results.items() if outcome.status == WRONG]
    failures = [f"{len(wrong)} are wrong: {', '.join(wrong)}"] if wrong else []
    if flags.compare:
        failures += outcomes.compare(results, read_table(), str, whole, may_pass=True)
    elif flags.update:
        write_table(read_table() | results, RESULTS)
    elif whole or flags.output:
        write_table(results, flags.output or RESULTS)
    return outcomes.conclude(failures)


if __name__ == "__main__":
    sys.exit(main())

"""Runs PyTorch's operator samples through the whole chain.

    python test/numerics/ops/ops.py                     all of them, writes results.csv
    python test/numerics/ops/ops.py --tenth --compare   every tenth, against results.csv
    python test/numerics/ops/ops.py --only addmm --keep out/

Each case runs in a process of its own, forked from one that has imported and
warmed up everything, so that a crash or a hang is that case's alone.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import os
import pathlib
import sys
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parents[2] / "python")]


from cases import Case, all_cases  # noqa: E402
from check import check, scratch  # noqa: E402
from support import chain, outcomes  # noqa: E402
from support.outcomes import CLOSE, NOT_COMPARABLE, PASSED, REFUSED, WRONG, Outcome  # noqa: E402

RESULTS = HERE / "results.csv"
COLUMNS = ["op", "variant", "sample", "overload", "status", "stage", "reason"]
CASE_TIMEOUT_S = 400


def read_table() -> dict[Case, Outcome]:
    with RESULTS.open(newline="") as file:
        return {
            Case(row["op"], row["variant"], int(row["sample"]), row["overload"]): (
                Outcome(row["status"], row["stage"], row["reason"])
            )
            for row in csv.DictReader(file)
        }


def write_table(results: dict[Case, Outcome], path: pathlib.Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for case, outcome in sorted(results.items()):
            writer.writerow(
                [*dataclasses.astuple(case), outcome.status, outcome.stage, outcome.reason]
            )


def _warm_up(folder: pathlib.Path) -> None:
    """Imports what the first export imports, in the process that is forked."""
    try:
        step_file = HERE / "op_step.py"
        chain.export(step_file, folder / "warm-up.pt", ["--op=addmm"])
    except Exception:
        # The same failure shows again in the case of this operator.
        traceback.print_exc()


def _label(case: Case) -> str:
    return f"{case.label} #{case.sample}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenth", action="store_true", help="every tenth of the table")
    parser.add_argument("--only", help="entries with this name")
    parser.add_argument("--compare", action="store_true", help="with results.csv")
    parser.add_argument("--jobs", "-j", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="folder to leave files in")
    parser.add_argument("--output", type=pathlib.Path, help="table to write")
    parser.add_argument("--verbose", "-v", action="store_true")
    flags = parser.parse_args()

    cases = sorted(read_table())[::10] if flags.tenth else all_cases()
    if flags.only:
        cases = [c for c in cases if flags.only in (c.op, c.label)]
    with scratch() as temporary:
        folder = flags.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        _warm_up(folder)
        results = outcomes.run(
            cases, check, _label, folder, flags.jobs, CASE_TIMEOUT_S, flags.verbose
        )

    print(outcomes.summary(results, (PASSED, CLOSE, REFUSED, NOT_COMPARABLE, WRONG)))
    wrong = sum(outcome.status == WRONG for outcome in results.values())
    failures = [f"{wrong} are wrong"] if wrong else []
    whole = not flags.tenth and not flags.only
    if flags.compare:
        failures += outcomes.compare(results, read_table(), _label, whole)
    elif whole:
        write_table(results, flags.output or RESULTS)
    return outcomes.conclude(failures)


if __name__ == "__main__":
    sys.exit(main())

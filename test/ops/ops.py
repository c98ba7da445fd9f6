"""Runs PyTorch's operator samples through the whole chain.

    python test/ops/ops.py                     all of them, writes results.csv
    python test/ops/ops.py --tenth --compare   every tenth, against results.csv
    python test/ops/ops.py --only addmm --keep out/

Each case runs in a process of its own, forked from one that has imported and
warmed up everything, so that a crash or a hang is that case's alone.
"""

from __future__ import annotations

import argparse
import collections
import csv
import dataclasses
import json
import os
import pathlib
import signal
import sys
import time
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "python")]

import torch  # noqa: E402

from cases import Case, all_cases  # noqa: E402
from check import WRONG, Outcome, check, scratch  # noqa: E402
from support import chain  # noqa: E402

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
            writer.writerow([*dataclasses.astuple(case), *dataclasses.astuple(outcome)])


def _warm_up(folder: pathlib.Path) -> None:
    """Imports what the first export imports, in the process that is forked."""
    try:
        step_file = HERE / "op_step.py"
        chain.export(step_file, folder / "warm-up.pt", ["--op=addmm"])
    except Exception:
        # The same failure shows again in the case of this operator.
        traceback.print_exc()


def _child(case: Case, folder: pathlib.Path) -> None:
    """The forked process: leaves `outcome.json`, and its output in `log`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.setpgid(0, 0)
    torch.set_num_threads(1)
    outcome = check(case, folder)
    partial = folder / "outcome.tmp"
    partial.write_text(json.dumps(dataclasses.asdict(outcome)))
    partial.rename(folder / "outcome.json")


def _stage(folder: pathlib.Path) -> str:
    path = folder / "stage"
    return path.read_text() if path.exists() else ""


def _collect(folder: pathlib.Path, status: int) -> Outcome:
    """What a process that ended with `status` left."""
    path = folder / "outcome.json"
    if path.exists():
        return Outcome(**json.loads(path.read_text()))
    return Outcome(WRONG, _stage(folder), f"the process ended with status {status}")


def run(cases: list[Case], folder: pathlib.Path, jobs: int, verbose: bool) -> dict[Case, Outcome]:
    """Runs `cases`, at most `jobs` at a time."""
    results: dict[Case, Outcome] = {}
    running: dict[int, tuple[Case, pathlib.Path, float]] = {}
    waiting = collections.deque(enumerate(cases))
    while waiting or running:
        while waiting and len(running) < jobs:
            number, case = waiting.popleft()
            place = folder / f"{number:04d}-{case.label}"
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    _child(case, place)
                    code = 0
                finally:
                    os._exit(code)
            running[pid] = (case, place, time.monotonic())
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            now = time.monotonic()
            for late, (case, place, start) in list(running.items()):
                if now - start > CASE_TIMEOUT_S:
                    os.killpg(late, signal.SIGKILL)
            time.sleep(0.01)
            continue
        case, place, start = running.pop(pid)
        results[case] = _collect(place, status)
        if verbose or results[case].status == WRONG:
            outcome = results[case]
            seconds = time.monotonic() - start
            print(
                f"[{len(results)}/{len(cases)}] {case.label} #{case.sample}: "
                f"{outcome.status} {outcome.stage} {outcome.reason} ({seconds:.1f} s)",
                flush=True,
            )
    return results


def compare(results: dict[Case, Outcome], table: dict[Case, Outcome]) -> list[str]:
    """How `results` differ from the committed table, one line each."""
    lines = []
    for case, outcome in sorted(results.items()):
        before = table.get(case)
        if before is None:
            lines.append(f"{case.label} #{case.sample}: not in the table")
        elif (before.status, before.stage) != (outcome.status, outcome.stage):
            lines.append(
                f"{case.label} #{case.sample}: {outcome.status} {outcome.stage} "
                f"({outcome.reason}); the table says {before.status} {before.stage}"
            )
    return lines


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
        results = run(cases, folder, flags.jobs, flags.verbose)

    counts = collections.Counter(outcome.status for outcome in results.values())
    kinds = ("passed", "close", "refused", "not comparable", "wrong")
    print(f"{len(results)} cases: " + ", ".join(f"{counts[k]} {k}" for k in kinds))
    for (stage, reason), n in collections.Counter(
        (o.stage, o.reason) for o in results.values() if o.status == "refused"
    ).most_common(20):
        print(f"  refused by {stage}, {n}: {reason}")
    failures = [] if not counts[WRONG] else [f"{counts[WRONG]} are wrong"]
    if flags.compare:
        table = read_table()
        failures += compare(results, table)
        if not flags.tenth and not flags.only:
            gone = sorted(set(table) - set(results))
            failures += [f"{c.label} #{c.sample}: is no case any more" for c in gone]
    elif not flags.tenth and not flags.only:
        write_table(results, flags.output or RESULTS)
    for line in failures:
        print("error:", line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

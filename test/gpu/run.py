#!/usr/bin/env python3
"""Builds the runtime and runs it on this machine's GPU: README.md says what is needed.

The exit status is 0 where nothing failed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Callable, Iterator, Optional, Sequence

# The tests' packages: `gpu`, `bench`, `support`.
if not __package__:
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from gpu import machine
from gpu.cases import FILES, ROOT, Files
from gpu.lab import Lab, Stopped
from gpu.rows import FAIL, PASS, ROWS, SKIP, Check, Row


def parse(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="test/gpu/run.py",
        description="Builds the runtime, and runs on a GPU what was compiled elsewhere.",
    )
    flag = parser.add_argument
    flag("--list", action="store_true", help="say what there is to run, and end")
    flag("--only", nargs="+", choices=ROWS, metavar="ROW", help="these rows alone")
    flag("--out", type=pathlib.Path, default=ROOT / "out" / "gpu" / "results", metavar="DIR")
    flag("--plans", type=pathlib.Path, default=FILES.folder, metavar="DIR", help="of prepare.py")
    flag("--build", type=pathlib.Path, default=ROOT / "out" / "gpu" / "build", metavar="DIR")
    flag("--bin", type=pathlib.Path, metavar="DIR", help="programs that are built already")
    flag("--jobs", type=int, default=1, metavar="N", help="rows at a time, but the bench (1)")
    flag("--time-limit", type=float, default=540, metavar="S", help="begin no row after (540)")
    # For tests of this script: plans for CPUs stand for those for GPUs.
    flag("--device", choices=("cuda", "cpu"), default="cuda", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def build(folder: pathlib.Path, log: pathlib.Path) -> pathlib.Path:
    """Compiles what the rows need, where that is not done; returns the programs' folder.

    Raises:
        Stopped: CMake or the compiler failed.
    """
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DFSDP_BUILD_COMPILER=OFF", "-DFSDP_BUILD_CUDA=ON"]
    options += [f"-DFSDP_PYTHON={sys.executable}"]
    steps = (
        ["cmake", *generator, "-S", ROOT, "-B", folder, *options],
        ["cmake", "--build", folder, "-j", str(os.cpu_count()), "--target", "gpu_check"],
    )
    with open(log, "a") as file:
        for step in steps:
            words = [str(word) for word in step]
            print(f"$ {' '.join(words)}", file=file, flush=True)
            if subprocess.run(words, stdout=file, stderr=file).returncode:
                lines = [line for line in log.read_text().splitlines() if "rror" in line]
                raise Stopped(f"the build failed: {(lines or ['no message'])[0].strip()} ({log})")
    return folder / "bin"


def run_row(row: Row, lab: Lab, why_not: str) -> dict[str, Any]:
    """Runs a row and prints its checks; returns what is kept of it."""
    begin = time.monotonic()
    checks: list[Check] = []
    if why_not and not (row.anywhere and lab.device == "cpu"):
        checks.append(Check(row.name, SKIP, why_not))
    else:
        try:
            for check in row.checks(lab):
                checks.append(check)
                print(f"  {check.verdict}  {row.name}: {check.name}: {check.detail}", flush=True)
        except Stopped as reason:
            checks.append(Check(row.name, FAIL, str(reason)))
    took = time.monotonic() - begin
    row_verdict = verdict(checks)
    reasons = [c.detail for c in checks if c.verdict == row_verdict] if row_verdict != PASS else []
    print(
        f"{row_verdict}  {row.name} ({took:.0f} s){': ' + reasons[0] if reasons else ''}",
        flush=True,
    )
    return {
        "verdict": row_verdict,
        "seconds": round(took, 1),
        "checks": [vars(check) for check in checks],
    }


def run_rows(
    names: Sequence[str], jobs: int, run: Callable[[str], dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows and what is kept of them, as they end: so many at a time, then those that are alone."""
    with ThreadPoolExecutor(jobs) as pool:
        ends = {pool.submit(run, name): name for name in names if not ROWS[name].alone}
        for end in as_completed(ends):
            yield ends[end], end.result()
    for name in names:
        if ROWS[name].alone:
            yield name, run(name)


def verdict(checks: Sequence[Check]) -> str:
    """A row passes when a check did and none failed."""
    verdicts = {check.verdict for check in checks}
    return FAIL if FAIL in verdicts else PASS if PASS in verdicts else SKIP


def keep(path: pathlib.Path, described: dict[str, Any], rows: dict[str, Any]) -> None:
    """Adds rows to the results of this GPU: a machine that is lent for minutes runs some at a
    time."""
    before = json.loads(path.read_text()) if path.exists() else {"rows": {}}
    known = {name: before["rows"].get(name) for name in ROWS} | rows
    kept = {name: row for name, row in known.items() if row}
    path.write_text(json.dumps({**described, "rows": kept}, indent=1) + "\n")


def main(argv: Optional[Sequence[str]] = None) -> int:
    """The command line; returns the exit status."""
    args = parse(argv)
    if args.list:
        print("\n".join(f"{row.name:<12} {row.what}" for row in ROWS.values()))
        return 0
    begin = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    described = machine.describe()
    why_not = "" if described["gpu"] else "no GPU: nvidia-smi shows none"
    print(f"{described['gpu'] or 'no GPU'}, {described['driver'] or 'no driver'}", flush=True)
    try:
        programs = args.bin or build(args.build, args.out / "build.log")
    except Stopped as reason:
        print(f"{FAIL}  build: {reason}")
        return 1
    print(f"built in {time.monotonic() - begin:.0f} s", flush=True)
    lab = Lab(programs, Files(args.plans), args.out, args.device)
    rows = {}
    path = args.out / f"{machine.slug(described['gpu'] or 'no GPU')}.json"

    def run(name: str) -> dict[str, Any]:
        late = time.monotonic() - begin > args.time_limit
        return run_row(ROWS[name], lab, "no time left" if late else why_not)

    for name, row in run_rows(args.only or [*ROWS], args.jobs, run):
        rows[name] = row
        keep(path, described, rows)
    counts = [sum(row["verdict"] == v for row in rows.values()) for v in (PASS, FAIL, SKIP)]
    print(f"{counts[0]} rows passed, {counts[1]} failed, {counts[2]} skipped; {path}")
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compiles what test/gpu/run.py runs, on a machine that has the compiler and needs no GPU."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Sequence

# The tests' packages: `gpu`, `bench`, `support`.
if not __package__:
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from gpu.cases import CASES, PREPARED, ROOT, STEPS, Case, Files, Step
from support import chain

MIB = 1 << 20
LIMIT = 48 * MIB  # of an archive's 64, sources included


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    args = parse(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    files, refused = Files(args.out), {}
    cases = [CASES[name] for name in args.cases or CASES]
    for name in dict.fromkeys(case.step for case in cases):
        export(STEPS[name], args.out / f"{name}.pt")
        for case in cases:
            if case.step == name:
                refused |= plans(case, args.out / f"{name}.pt", files, args.devices)
        (args.out / f"{name}.pt").unlink()
    files.refusals.write_text(json.dumps(refused, indent=1) + "\n")
    for plan, reason in refused.items():
        print(f"error: {plan}: {reason}", file=sys.stderr)
    size = sum(path.stat().st_size for path in args.out.iterdir())
    print(f"{len(cases)} cases in {args.out}, {size / MIB:.1f} MiB")
    if size > LIMIT:
        print(f"error: that is more than {LIMIT // MIB} MiB", file=sys.stderr)
    return 1 if refused or size > LIMIT else 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="test/gpu/prepare.py", description=__doc__)
    flag = parser.add_argument
    flag("--out", type=pathlib.Path, default=PREPARED, metavar="DIR")
    flag("--cases", nargs="+", choices=CASES, metavar="NAME", help="all")
    flag("--devices", nargs="+", choices=("cpu", "cuda"), default=["cpu", "cuda"])
    return parser.parse_args(argv)


def export(step: Step, archive: pathlib.Path) -> None:
    """Writes the archive, and the tensors beside it."""
    exporter = [sys.executable, "-m", "fsdp_mlir.export", "-o", archive]
    chain.command([*exporter, ROOT / step.file, *step.flags])


def plans(case: Case, archive: pathlib.Path, files: Files, devices: Sequence[str]) -> dict:
    """Makes a case's plans; returns the refusals."""
    refused = {}
    for device in devices if case.host else [d for d in devices if d == "cuda"]:
        target = files.plan(case, device)
        target.unlink(missing_ok=True)
        scratch = files.folder / "scratch"
        try:
            made = chain.lower(
                ROOT / STEPS[case.step].file,
                archive,
                scratch,
                pipeline=f"{case.pipeline} device={device}",
            )
            made.plan.rename(target)
        except chain.ChainError as error:
            lines = [line for line in error.output.splitlines() if "error:" in line]
            refused[target.name] = (lines or [f"exit {error.code}"])[0].strip()
        for path in scratch.iterdir():
            path.unlink()
        scratch.rmdir()
    return refused


if __name__ == "__main__":
    sys.exit(main())

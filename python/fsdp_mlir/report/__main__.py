"""`python -m fsdp_mlir.report RUN_DIR -o report.html`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Optional, Sequence

from ..errors import ArgumentParser, E, exit_with
from . import ReportError, read_run, write_report


def _refuse_input(output: Path, read: Optional[Path]) -> None:
    if read and read.exists() and output.exists() and output.samefile(read):
        raise ReportError(
            E.FLAGS_DISAGREE, f"{output} is what the report is made of; name another file with -o"
        )


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = ArgumentParser(
        prog="python -m fsdp_mlir.report",
        description="Makes one page of a run, which opens without a network: its schedule, "
        "predicted and measured, its memory, and what was decided (docs/report.md).",
    )
    parser.add_argument("folder", metavar="RUN_DIR", type=Path, help="where the driver left a run")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="(RUN_DIR/report.html)")
    parser.add_argument("--metrics", metavar="FILE", type=Path, help="(RUN_DIR/metrics.jsonl)")
    parser.add_argument("--trace", metavar="FILE", type=Path, help="(RUN_DIR/trace.json)")
    args = parser.parse_args(argv)
    output = args.output or args.folder / "report.html"
    try:
        for name in ("step.plan", "metrics.jsonl", "trace.json", "summary.json", "run.toml"):
            _refuse_input(output, args.folder / name)
        for given in (args.metrics, args.trace):
            _refuse_input(output, given)
        write_report(read_run(args.folder, args.metrics, args.trace), output)
    except ReportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"wrote {output}")
    return 0


if __name__ == "__main__":
    exit_with(main)

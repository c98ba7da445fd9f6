"""TensorBoard's event files of a run, written while it runs.

    python -m fsdp_mlir.event_files metrics.jsonl -o DIR [--follow]

does it for a run of fsdp-run alone, from what its --metrics writes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Optional, Sequence

from .progress import follow

# By metrics field (docs/metrics.md): the tag, torchtitan's where it has one, and the factor to its
# unit. Fields that are not here keep their name.
TAGS: dict[str, tuple[str, float]] = {
    "loss": ("loss_metrics/global_avg_loss", 1),
    "eval_loss": ("validation_metrics/loss", 1),
    "grad_norm": ("grad_norm", 1),
    "lr": ("lr", 1),
    "tokens_per_s": ("throughput(tps)", 1),
    "step_ms": ("time_metrics/end_to_end(s)", 1e-3),
    "data_wait_ms": ("time_metrics/data_loading(s)", 1e-3),
    "exposed_comm_ms": ("time_metrics/exposed_communication(s)", 1e-3),
    "memory_bytes": ("memory/planned(GiB)", 2**-30),
    "memory_peak_bytes": ("memory/max_resident(GiB)", 2**-30),
}


class EventFiles:
    """Writes rows of metrics into a folder that `tensorboard --logdir` reads."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), flush_secs=10)

    def update(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if name in ("step", "epoch") or not isinstance(value, (int, float)):
                continue
            tag, factor = TAGS.get(name, (name, 1))
            self._writer.add_scalar(tag, value * factor, row["step"])

    def close(self) -> None:
        self._writer.close()


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fsdp_mlir.event_files",
        description="Writes what TensorBoard reads from the metrics of a run (docs/metrics.md).",
    )
    parser.add_argument("metrics", metavar="METRICS", type=Path, help="what --metrics wrote")
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, required=True)
    parser.add_argument("--follow", action="store_true", help="while it grows, until interrupted")
    args = parser.parse_args(argv)
    if not args.follow and not args.metrics.is_file():
        print(f"error: {args.metrics}: no such metrics", file=sys.stderr)
        return 1
    files = EventFiles(args.output)
    try:
        for row in follow(args.metrics, lambda: args.follow):
            if "step" in row:
                files.update(row)
    except KeyboardInterrupt:
        pass
    finally:
        files.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a run would refuse of a step that was exported, said before that is compiled."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import E
from .progress import batch_of, data_beside, sample_count, steps_of_epoch
from .stages import StageError


def check_exported(args: argparse.Namespace, needs_length: bool, metadata: dict[str, Any]) -> None:
    """Raises StageError: the step whose `metadata` is given cannot be trained as `args` say."""
    if needs_length and metadata.get("length") is None:
        raise StageError(E.RUN_LENGTH, "the step has no length; give --epochs or --steps")
    if args.eval_interval and "eval" not in metadata.get("programs", {}):
        raise StageError(
            E.FLAGS_DISAGREE,
            "--eval-interval: the step file has nothing to evaluate; give TrainingStep eval_data, or "
            "leave the flag out",
        )
    data, ranks = data_beside(args.out / "step.pt"), args.nproc * args.nnodes
    samples = sample_count(data) if data else None
    if steps_of_epoch(metadata, samples, ranks) == 0:
        batch, micro = batch_of(metadata), metadata.get("accumulate", 1)
        each = f"{ranks} x {batch}" + (f" x {micro} micro-batches" if micro > 1 else "")
        raise StageError(
            E.TOO_FEW_SAMPLES,
            f"the step's data has {samples} samples, fewer than a step of all ranks takes: {each}; "
            "use more data, fewer ranks or a smaller batch",
        )

"""What a run would refuse of a step that was exported, said before that is compiled, and where it
can be before it is exported."""

from __future__ import annotations

import argparse
from typing import Any, Optional

from ..errors import E
from .progress import batch_of, data_beside, length_of, sample_count, steps_of_epoch
from .stages import StageError

# The names of metrics that the compiler adds, where options ask for them.
OF_PASSES = ("grad_norm", "loss_scale", "skipped_steps")


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
    if args.eval_outputs and not gives_outputs(metadata):
        raise StageError(
            E.FLAG_AND_PLAN,
            "--eval-outputs: the step's evaluation gives nothing for each sample; give TrainingStep "
            "outputs and eval_data, or leave the flag out",
        )
    if args.keep_best:
        check_metric(args.keep_best, metadata)
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
    length = length_of(metadata, samples, ranks, args.steps, args.epochs, args.then)
    check_traced(args, length.steps)


def check_traced(args: argparse.Namespace, steps: Optional[int]) -> None:
    """`steps`: the length of the run; None: it is not known, or not yet.

    Raises:
        StageError: steps are to be traced that the run has not.
    """
    if not args.trace_steps or steps is None:
        return
    if int(args.trace_steps.partition(":")[2]) > steps:
        raise StageError(
            E.TRACE_STEPS,
            f"--trace-steps {args.trace_steps} goes beyond the run's {steps} "
            f"step{'s' if steps > 1 else ''}; name steps that it has",
        )


def check_metric(name: str, metadata: dict[str, Any]) -> None:
    """Raises StageError: neither the step nor a pass gives a metric of this name."""
    known = dict.fromkeys(metrics_of(metadata))
    if name in known or name in OF_PASSES:
        return
    lacks = name.startswith("eval_") and "eval" not in metadata.get("programs", {})
    why = "; it evaluates nothing: give TrainingStep eval_data" if lacks else ""
    raise StageError(
        E.FLAG_AND_PLAN,
        f"--keep-best {name} is no metric of the step, which has {', '.join(known)}{why}",
    )


def gives_outputs(metadata: dict[str, Any]) -> bool:
    """Whether an evaluation gives more than numbers."""
    program = metadata.get("programs", {}).get("eval", {"results": []})
    outputs = (result["name"] for result in program["results"] if result["role"] == "output")
    return any(program["values"][name]["shape"] for name in outputs)


def metrics_of(metadata: dict[str, Any]) -> list[str]:
    """The names that a step logs, and with `eval_` those that it evaluates to."""
    names = ["loss"]
    # Those of training first; of other shapes a program has the same ones.
    programs = sorted(metadata.get("programs", {}).items(), key=lambda item: item[0] == "eval")
    for name, program in programs:
        if program["variant_of"] is not None:
            continue
        before = "eval_" if name == "eval" else ""
        behind = f".{program['turn']}" if program["turn"] else ""
        for result in program["results"]:
            is_number = not program["values"][result["name"]]["shape"]
            if result["role"] in ("loss", "output") and is_number:
                names.append(before + result.get("fqn", "loss") + behind)
    return names
